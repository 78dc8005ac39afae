//! `Add`: `Y = A + B` ⇒ `dA = dY`, `dB = dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Add", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    for i in 0..2 {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}
