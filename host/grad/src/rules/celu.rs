//! `Celu`: `Y = X` if `X > 0`, else `α · (exp(X / α) − 1)` ⇒ `dX = dY` or `dY · exp(X / α)`.

use super::elu::Exponential;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Celu", backward };

/// `Celu` with `α`.
pub fn celu(alpha: f64) -> Exponential {
    Exponential { alpha, beta: 1.0 / alpha, gamma: 1.0 }
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    celu(p.float("alpha", 1.0)).backward(p);
    Ok(())
}
