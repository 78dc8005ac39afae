//! `Sqrt`: `Y = √X` ⇒ `dX = dY / 2Y`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Sqrt", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let half = p.em.scale(&gy, 0.5);
    let gx = p.em.div(&half, &y);
    p.gx(0, gx);
    Ok(())
}
