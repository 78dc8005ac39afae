//! `ReduceMean`: `Y` = mean of `X` over axes, `n` elements each ⇒ `dX = dY / n` repeated along them.

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "ReduceMean", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, count) = repeatable(p)?;
    let gx = p.em.scale(&gy, 1.0 / count as f64);
    p.gx(0, gx);
    Ok(())
}
