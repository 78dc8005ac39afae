//! Errors in the settings of a run.

use super::super::Failure;
use toml::Value;

/// An error in the settings of a run.
pub(in super::super) enum Fault {
    /// A value, a file, or a key.
    Failure(Failure),
    /// A setting is missing, or two exclude each other. The message is clap's.
    Usage(Box<clap::Error>),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<clap::Error> for Fault {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}

/// A key at fault.
pub(in super::super) struct KeyFault {
    pub(in super::super) key: String,
    pub(in super::super) kind: KeyFaultKind,
}

pub(in super::super) enum KeyFaultKind {
    /// No setting has this name.
    Unknown,
    /// The value, and what to give instead.
    Value(Value, String),
}
