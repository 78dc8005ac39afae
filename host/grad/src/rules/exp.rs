//! `Exp`: `Y = exp(X)` ⇒ `dX = dY · Y`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Exp", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let gx = p.em.mul(&gy, &y);
    p.gx(0, gx);
    Ok(())
}
