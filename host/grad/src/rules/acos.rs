//! `Acos`: `Y = arccos(X)` ⇒ `dX = −dY / √(1 − X²)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Acos", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let slope = super::asin::slope(p.em, &x);
    let ratio = p.em.div(&gy, &slope);
    let gx = p.em.unary("Neg", &ratio);
    p.gx(0, gx);
    Ok(())
}
