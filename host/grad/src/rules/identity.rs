//! `Identity`: `Y = X` ⇒ `dX = dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::Grad;

pub const RULE: GradRule = GradRule { op: "Identity", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    match p.gy_any() {
        Grad::Factored(factors) => p.gx_factored(0, factors),
        Grad::Dense(gy) => p.gx(0, gy),
    }
    Ok(())
}
