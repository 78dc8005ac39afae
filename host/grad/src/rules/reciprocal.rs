//! `Reciprocal`: `Y = 1 / X` ⇒ `dX = −dY · Y²`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Reciprocal", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let product = p.em.mul(&gy, &square);
    let gx = p.em.unary("Neg", &product);
    p.gx(0, gx);
    Ok(())
}
