//! Environment of a run. The platform is hardware or a service about which the host cannot lie. The host may keep, lose
//! or replay the blobs that it gets.

use damper_journal::BLOB;

/// Bytes of a seal's nonce.
pub const NONCE: usize = 24;
/// Bytes of a seal's tag.
pub const TAG: usize = 16;
/// Bytes that sealing adds to a message.
pub const OVERHEAD: usize = NONCE + TAG;
/// Bytes of a sealed ledger.
pub const SEALED_LEDGER: usize = BLOB + OVERHEAD;

/// Error: a blob was not sealed here, was sealed for another use, or was changed. Or the platform or the host did not
/// answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// Interface to the environment. A clone is the same platform.
pub trait Platform: Clone {
    /// Returns the count of the monotonic counter.
    fn count(&mut self) -> Result<u64, Refused>;

    /// Adds 1 to the counter and returns the new count.
    fn increment(&mut self) -> Result<u64, Refused>;

    /// Returns the key that only this code on this machine ever gets.
    fn sealing_key(&mut self) -> Result<[u8; 32], Refused>;

    /// Fills `bytes` with random bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Refused>;

    /// Asks the host to store the sealed ledger.
    fn put_ledger(&mut self, sealed: &[u8; SEALED_LEDGER]) -> Result<(), Refused>;

    /// Returns the host's sealed ledger, if it claims to have one.
    fn get_ledger(&mut self) -> Result<Option<[u8; SEALED_LEDGER]>, Refused>;
}
