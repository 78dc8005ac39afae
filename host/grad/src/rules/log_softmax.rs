//! `LogSoftmax` along one axis: `dX = dY − exp(Y) · Σ dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "LogSoftmax", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (y, gy) = (p.y(), p.gy());
    let axis = p.int("axis", -1);
    let axis = if axis < 0 { axis + y.rank() as i64 } else { axis } as usize + p.shift();
    let probability = p.em.unary("Exp", &y);
    let sum = p.em.reduce_sum(&gy, &[axis], true);
    let part = p.em.mul(&probability, &sum);
    let gx = p.em.sub(&gy, &part);
    p.gx(0, gx);
    Ok(())
}
