//! `Asinh`: `Y = arsinh(X)` ⇒ `dX = dY / √(X² + 1)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Asinh", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let one = p.em.scalar(x.dtype, 1.0);
    let square = p.em.mul(&x, &x);
    let sum = p.em.add(&square, &one);
    let root = p.em.unary("Sqrt", &sum);
    let gx = p.em.div(&gy, &root);
    p.gx(0, gx);
    Ok(())
}
