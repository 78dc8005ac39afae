//! Errors of the compiler.

/// Reason why a network cannot be compiled, with the node that causes it, if any.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

impl CompileError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
