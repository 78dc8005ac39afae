//! Why a network cannot be compiled.

/// The reason, with the node where one is at fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

impl CompileError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
