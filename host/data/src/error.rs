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
    /// A setting that does not suit these data.
    #[error("{spec}: {error}")]
    SettingOf {
        /// The data, `KIND:PATH`.
        spec: String,
        /// The setting, and what to do.
        error: SettingError,
    },
}

impl DataError {
    /// Returns true if a setting is at fault.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        matches!(self, Self::Setting(_) | Self::SettingOf { .. })
    }

    /// The error of a setting that does not suit the data `spec`.
    pub(crate) fn setting_of(spec: &str, error: SettingError) -> Self {
        Self::SettingOf { spec: spec.into(), error }
    }
}

/// The remedy for an input that no sample gives, such as a state or a rate.
pub(crate) fn same_for_all(input: &str) -> String {
    format!("; if it is the same for all samples, give `input` {input}=0")
}
