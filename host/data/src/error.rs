//! The error of a data set.

use damper_onnx::SettingError;

/// A data set that cannot be used: one line that names the cause and says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DataError {
    /// A file, or a row of it.
    #[error("{0}")]
    File(String),
    /// A setting of [`DataOptions`](crate::DataOptions).
    #[error(transparent)]
    Setting(#[from] SettingError),
}
