//! `Sigmoid`: `Y = 1 / (1 + exp(−X))` ⇒ `dX = dY · Y · (1 − Y)`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Sigmoid", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let one = p.em.scalar(y.dtype, 1.0);
    let rest = p.em.sub(&one, &y);
    let slope = p.em.mul(&y, &rest);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}
