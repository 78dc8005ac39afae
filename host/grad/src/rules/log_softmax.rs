//! `LogSoftmax` along one axis: `dX = dY − exp(Y) · Σ dY`. For a row that a guard replaced, see `Softmax`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "LogSoftmax", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    let y = p.chosen_y(&gy);
    let axis = p.int("axis", -1);
    let axis = if axis < 0 { axis + p.y().rank() as i64 } else { axis } as usize + p.shift();
    let probability = p.em.unary("Exp", &y);
    let sum = p.em.reduce_sum(&gy, &[axis], true);
    let part = p.em.mul(&probability, &sum);
    let gx = p.em.sub(&gy, &part);
    p.gx(0, gx);
    Ok(())
}
