//! `Tanh`: `Y = tanh(X)` ⇒ `dX = dY · (1 − Y²)`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Tanh", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let one = p.em.scalar(y.dtype, 1.0);
    let slope = p.em.sub(&one, &square);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}
