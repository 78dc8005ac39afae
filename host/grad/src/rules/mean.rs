//! `Mean` of `n` inputs: `dX_i = dY / n`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Mean", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    let share = p.em.scale(&gy, 1.0 / p.arity() as f64);
    for i in 0..p.arity() {
        if p.wants(i) {
            p.gx(i, share.clone());
        }
    }
    Ok(())
}
