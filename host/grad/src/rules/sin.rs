//! `Sin`: `Y = sin(X)` ⇒ `dX = dY · cos(X)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sin", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let derivative = p.em.alone("Cos", &x);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
