//! The error of a data set.

/// A data set that cannot be used: one line that names the file, and the row where one is at fault, and says what to
/// do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct DataError(pub String);
