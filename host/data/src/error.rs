//! Errors of a data set.

use damper_onnx::SettingError;

/// An unusable data set: one line with the cause and the fix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A fault of a file, or of a row.
    #[error("{0}")]
    File(String),
    /// A setting of [`DataOptions`](crate::DataOptions).
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A setting that does not fit the data.
    #[error("{spec}: {error}")]
    SettingOf {
        /// The data, `KIND:PATH`.
        spec: String,
        /// The setting and the fix.
        error: SettingError,
    },
}

impl DataError {
    /// Returns true if a setting is wrong.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        matches!(self, Self::Setting(_) | Self::SettingOf { .. })
    }

    /// Returns the error for a setting that does not fit the data `spec`.
    pub(crate) fn setting_of(spec: &str, error: SettingError) -> Self {
        Self::SettingOf { spec: spec.into(), error }
    }
}

/// Returns the fix for an input that samples do not have, such as a state or a rate.
pub(crate) fn same_for_all(input: &str) -> String {
    format!("; if it is the same for all samples, give `input` {input}=0")
}
