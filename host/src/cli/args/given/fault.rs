//! Errors in the settings of a run.

use crate::cli::Failure;
use toml::Value;

/// An error in the settings of a run.
pub(in crate::cli) enum Fault {
    /// An invalid value, file, or key.
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

/// An invalid key.
pub(in crate::cli) struct KeyFault {
    pub(in crate::cli) key: String,
    pub(in crate::cli) kind: KeyFaultKind,
}

pub(in crate::cli) enum KeyFaultKind {
    /// No setting has this name.
    Unknown,
    /// The invalid value, and the fix.
    Value(Box<Value>, String),
}
