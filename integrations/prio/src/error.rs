//! Errors of a secure aggregation.

use damper_core::update::UpdateError;
use damper_federation::FederationError;
use damper_files::FileError;
use prio::codec::CodecError;
use prio::vdaf::VdafError;
use std::io;
use std::path::PathBuf;

/// Reason why an update is not in a sum, or why shares cannot be combined: one line with the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PrioError {
    /// The bytes are not an update.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A field of the header is not that of the round.
    #[error("device {device}: its {field} is not that of the round; it must have the plan that the aggregators have")]
    Mixed { device: u64, field: &'static str },
    #[error(
        "device {device}: an integer of its update is out of the plan's range, so the update is left out; no honest update has one"
    )]
    OutOfRange { device: u64 },
    #[error("a range of {0} bits: give 2 to 32")]
    Bits(u32),
    #[error("the operating system gave no randomness ({0}); try again")]
    Randomness(getrandom::Error),
    /// A share or a message cannot be decoded.
    #[error("damaged: {0}; ask for it again")]
    Encoding(#[from] CodecError),
    /// A proof does not hold, or shares do not belong together.
    #[error("device {device}: {error}; its update is left out")]
    Refused { device: u64, error: VdafError },
    #[error("the aggregators' shares do not add up ({0}); start the next round")]
    Shares(VdafError),
    #[error("a vector of {len} integers of {bits} bits: {error}; plan with fewer parameters")]
    Scheme { len: usize, bits: u32, error: VdafError },
}

/// Error of an aggregator's or a gateway's folder: one line that names the file and the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum FolderError {
    #[error(transparent)]
    Federation(#[from] FederationError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Prio(#[from] PrioError),
    #[error("{}: {error}; make it readable and writable", file.display())]
    Io { file: PathBuf, error: io::Error },
    #[error("{}: missing or damaged; put the folder back as it was, or begin with a new plan", .0.display())]
    Damaged(PathBuf),
    #[error("{}: the folder of the {other}, not of the {role}; name another folder", folder.display())]
    Role { folder: PathBuf, role: &'static str, other: String },
    /// The plan is not for two aggregators.
    #[error("{0}")]
    Plan(&'static str),
}
