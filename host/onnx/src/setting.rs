//! Error of a setting, for all crates that read models and data.

use std::fmt::{self, Display};

/// Setting that cannot be used.
///
/// Messages contain settings by their field names, in backticks. The command replaces them by its flags.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SettingError {
    /// Field name.
    pub setting: &'static str,
    /// Value, or empty if the problem is the setting itself.
    pub value: String,
    /// Problem and fix.
    pub problem: String,
}

impl SettingError {
    /// Error of `value` for `setting`.
    pub fn new(setting: &'static str, value: impl Display, problem: impl Into<String>) -> Self {
        Self { setting, value: value.to_string(), problem: problem.into() }
    }
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.value.is_empty() { "" } else { " " };
        write!(f, "`{}`{space}{}: {}", self.setting, self.value, self.problem)
    }
}

impl std::error::Error for SettingError {}
