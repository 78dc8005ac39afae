//! Type of differentiation rules.

use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

/// Rule that maps the gradient of an operator's output to gradients of its inputs.
pub struct GradRule {
    /// Operator of the standard domain.
    pub op: &'static str,
    /// Emits the gradients of the inputs that need one.
    pub backward: fn(&mut BackwardContext<'_>) -> Result<(), DeriveError>,
}
