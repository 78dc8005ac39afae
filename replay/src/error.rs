//! The errors of a player.

use super::memory::MemoryPart;
use core::fmt;
use damper_core::error::{CallError, ConfigError};
use damper_core::numerics::CONTRACT;

/// A pack cannot be played to its end. Lines printed before the error are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError<E> {
    /// The bytes ended or could not be read.
    Source(E),
    /// The bytes are invalid.
    Pack(PackError),
}

/// An error of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PackError {
    /// The bytes are not a pack, or a pack of another version.
    NotAPack,
    /// The pack's bits are of another version of the contract.
    Contract(u32),
    /// A field of the pack is out of range.
    Field(&'static str),
    /// A configuration in the pack is invalid.
    Config(ConfigError),
    /// A state in the pack does not fit.
    Call(CallError),
    /// The pack needs more memory.
    Memory {
        /// The part.
        of: MemoryPart,
        /// Elements needed.
        needed: usize,
        /// Elements free.
        got: usize,
    },
    /// The digest at the end does not match the pack's bytes. Reported differences may be due to damage.
    Damaged,
}

impl From<ConfigError> for PackError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CallError> for PackError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPack => f.write_str("this is no pack, or one of another version"),
            Self::Contract(pack) => {
                write!(f, "the pack's bits are of contract {pack}, those here of {CONTRACT}")
            }
            Self::Field(what) => write!(f, "out of range: {what}"),
            Self::Config(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
            Self::Memory { needed, got, .. } => {
                write!(f, "{needed} elements of memory are needed where {got} are free")
            }
            Self::Damaged => f.write_str("the pack's digest is not that of its bytes: it was damaged"),
        }
    }
}

impl core::error::Error for PackError {}

impl<E: fmt::Display> fmt::Display for ReplayError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Pack(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for ReplayError<E> {}
