//! `Selu`: `Y = γ · X` if `X > 0`, else `γ · α · (exp(X) − 1)` ⇒ `dX = γ · dY` or `dY · γ · α · exp(X)`.

use super::elu::Exponential;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Selu", backward };

/// Default `α` of the operator.
pub const ALPHA: f32 = 1.673_263_2;
/// Default `γ` of the operator.
pub const GAMMA: f32 = 1.050_701;

/// `Selu` with `α` and `γ`.
pub fn selu(alpha: f64, gamma: f64) -> Exponential {
    Exponential { alpha, beta: 1.0, gamma }
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    selu(p.float("alpha", ALPHA), p.float("gamma", GAMMA)).backward(p);
    Ok(())
}
