//! `Tanh`: `Y = tanh(X)` ⇒ `dX = dY · (1 − Y²)`.

use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: Rule = Rule { op: "Tanh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let one = p.em.scalar(y.dtype, 1.0);
    let derivative = p.em.sub(&one, &square);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
