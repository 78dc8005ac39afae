//! `Atan`: `Y = arctan(X)` ⇒ `dX = dY / (X² + 1)`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Atan", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let one = p.em.scalar(x.dtype, 1.0);
    let square = p.em.mul(&x, &x);
    let sum = p.em.add(&square, &one);
    let gx = p.em.div(&gy, &sum);
    p.gx(0, gx);
    Ok(())
}
