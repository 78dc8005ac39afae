//! `Cos`: `Y = cos(X)` ⇒ `dX = dY · −sin(X)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Cos", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let derivative = p.em.alone("Sin", &x);
    let derivative = p.em.unary("Neg", &derivative);
    let gx = p.em.mul(&gy, &derivative);
    p.gx(0, gx);
    Ok(())
}
