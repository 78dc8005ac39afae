//! The type of differentiation rules.

use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

/// How the gradient of one operator's output becomes gradients of its inputs.
pub struct GradRule {
    /// Operator of the standard domain.
    pub op: &'static str,
    /// Emits the gradients of the inputs that are wanted.
    pub backward: fn(&mut BackwardContext<'_>) -> Result<(), DeriveError>,
}
