//! The errors of a secure aggregation.

use damper_core::update::UpdateError;
use prio::codec::CodecError;
use prio::vdaf::VdafError;

/// Why an update is not in a sum, or a sum not released: one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PrioError {
    /// Bytes that are no update.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A field of the header is not that of the round.
    #[error("device {device}: its {field} is not that of the round; it must have the plan that the aggregators have")]
    Mixed { device: u64, field: &'static str },
    #[error(
        "device {device}: an integer of its update is outside of the range of {bits} bits, so the update is left out; raise the bits"
    )]
    OutOfRange { device: u64, bits: u32 },
    #[error("a range of {0} bits: give 2 to 32")]
    Bits(u32),
    #[error("device {0}: its update of this round is counted already; it counts once")]
    Duplicate(u64),
    #[error("device {0}: its report was sent before under this number; make a new one")]
    Replayed(u64),
    #[error("{accepted} updates are verified, and at least {smallest} are needed for their noise; nothing is released")]
    SmallCohort { accepted: usize, smallest: usize },
    #[error("the aggregators have verified different devices; let both drop those that the other does not have")]
    Cohorts,
    #[error("the shares are both of the {0}; give one of each aggregator")]
    SameRole(&'static str),
    #[error("the operating system gave no randomness ({0})")]
    Randomness(getrandom::Error),
    /// A share or a message that cannot be read.
    #[error("damaged: {0}; ask for it again")]
    Encoding(#[from] CodecError),
    /// A proof that does not hold, or shares that do not belong together.
    #[error("device {device}: {error}; its update is left out")]
    Refused { device: u64, error: VdafError },
    #[error("the aggregators' shares do not add up ({0}); start the round again")]
    Shares(VdafError),
    #[error("a vector of {len} integers of {bits} bits: {error}")]
    Scheme { len: usize, bits: u32, error: VdafError },
}
