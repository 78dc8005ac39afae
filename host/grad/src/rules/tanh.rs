//! `Tanh`: `Y = tanh(X)` ⇒ `dX = dY · (1 − Y²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::tanh_grad;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Tanh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let gx = tanh_grad(p.em, &gy, &y);
    p.gx(0, gx);
    Ok(())
}
