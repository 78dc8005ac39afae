//! Why no run follows from what was given.

use super::super::Failure;
use toml::Value;

/// Why no run follows from what was given.
pub(in super::super) enum Fault {
    /// A value, a file, or a key.
    Failure(Failure),
    /// A setting is missing, or two exclude each other: as the parser says it.
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

/// A key whose value is at fault, and what to do.
pub(in super::super) struct KeyFault {
    pub(in super::super) key: String,
    pub(in super::super) kind: KeyFaultKind,
}

pub(in super::super) enum KeyFaultKind {
    /// There is no such setting.
    Unknown,
    /// The value, and what to give instead.
    Value(Value, String),
}
