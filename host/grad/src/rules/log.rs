//! `Log`: `Y = ln(X)` ⇒ `dX = dY / X`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Log", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = p.em.div(&gy, &x);
    p.gx(0, gx);
    Ok(())
}
