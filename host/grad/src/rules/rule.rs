//! The type of differentiation rules.

use crate::pull::Pull;
use crate::refusal::Refusal;

/// How the gradient of one operator's output becomes gradients of its inputs.
pub struct Rule {
    /// Operator of the standard domain.
    pub op: &'static str,
    /// Emits the gradients of the inputs that are wanted.
    pub pull: fn(&mut Pull<'_>) -> Result<(), Refusal>,
}
