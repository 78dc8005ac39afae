//! `GlobalAveragePool`: `Y: [N, C, 1, …]` = mean of `X: [N, C, *s]` over its `S` positions ⇒ `dX = dY / S` repeated.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "GlobalAveragePool", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let positions: usize = p.x(0).shape[2..].iter().product();
    let gy = p.gy();
    let gx = p.em.scale(&gy, 1.0 / positions as f64);
    p.gx(0, gx);
    Ok(())
}
