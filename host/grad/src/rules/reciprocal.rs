//! `Reciprocal`: `Y = 1 / X` ⇒ `dX = −dY · Y²`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Reciprocal", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let product = p.em.mul(&gy, &square);
    let gx = p.em.unary("Neg", &product);
    p.gx(0, gx);
    Ok(())
}
