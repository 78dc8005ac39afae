//! What a run takes from outside: hardware or a service that the host cannot lie about, and the host, which may keep, lose or replay
//! what it is given.

use damper_journal::BLOB;

/// Bytes of a seal's nonce.
pub const NONCE: usize = 24;
/// Bytes of a seal's tag.
pub const TAG: usize = 16;
/// Bytes that a sealed message is longer.
pub const OVERHEAD: usize = NONCE + TAG;
/// Bytes of a sealed ledger.
pub const SEALED_LEDGER: usize = BLOB + OVERHEAD;

/// It was not sealed here, for this, or it was changed; or the platform or the host did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// What is outside. A clone is the same platform.
pub trait Platform: Clone {
    /// The count of the monotonic counter.
    fn count(&mut self) -> Result<u64, Refused>;

    /// Adds 1 to the counter; the new count.
    fn increment(&mut self) -> Result<u64, Refused>;

    /// The key that only this code on this machine is ever given.
    fn sealing_key(&mut self) -> Result<[u8; 32], Refused>;

    /// Fills with random bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Refused>;

    /// Has the host keep the sealed ledger.
    fn put_ledger(&mut self, sealed: &[u8; SEALED_LEDGER]) -> Result<(), Refused>;

    /// The host's sealed ledger, if it says that it has one.
    fn get_ledger(&mut self) -> Result<Option<[u8; SEALED_LEDGER]>, Refused>;
}
