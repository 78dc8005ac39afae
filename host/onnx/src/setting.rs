//! The error of a setting, for all crates that read models and data.

use std::fmt::{self, Display};

/// A setting that cannot be used.
///
/// Messages have settings under the names of their fields, in backticks; the command shows their flags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingError {
    /// The name of its field.
    pub setting: &'static str,
    /// The value; empty if the problem is the setting itself.
    pub value: String,
    /// The problem and its remedy.
    pub problem: String,
}

impl SettingError {
    /// The error of `value` for `setting`.
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
