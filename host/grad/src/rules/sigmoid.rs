//! `Sigmoid`: `Y = 1 / (1 + exp(−X))` ⇒ `dX = dY · Y · (1 − Y)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sigmoid", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let one = p.em.scalar(y.dtype, 1.0);
    let rest = p.em.sub(&one, &y);
    let derivative = p.em.mul(&y, &rest);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
