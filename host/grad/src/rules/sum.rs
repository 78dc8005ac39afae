//! `Sum` of any number of inputs: `dX_i = dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sum", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    for i in 0..p.arity() {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}
