//! What a run takes from outside: hardware or a service that the host cannot lie about, and the host, which may keep, lose or replay
//! what it is given.

use crate::seal::{self, Label, OVERHEAD, Refused};
use damper_journal::{BLOB, MonotonicCounter, Vault};

/// Bytes of a sealed ledger.
pub const SEALED_LEDGER: usize = BLOB + OVERHEAD;

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

/// The platform's counter.
pub struct Counter<P>(pub P);

impl<P: Platform> MonotonicCounter for Counter<P> {
    type Error = Refused;

    fn read(&mut self) -> Result<u64, Refused> {
        self.0.count()
    }

    fn increment(&mut self) -> Result<u64, Refused> {
        self.0.increment()
    }
}

/// The ledger's blob, sealed here and kept by the host.
pub struct Shelf<P>(pub P);

impl<P: Platform> Vault for Shelf<P> {
    type Error = Refused;

    fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Refused> {
        let mut sealed = [0; SEALED_LEDGER];
        sealed.iter_mut().zip(blob).for_each(|(to, byte)| *to = *byte);
        seal::seal(&mut self.0, Label::Ledger, &mut sealed)?;
        self.0.put_ledger(&sealed)
    }

    fn get(&mut self) -> Result<Option<[u8; BLOB]>, Refused> {
        let Some(mut sealed) = self.0.get_ledger()? else { return Ok(None) };
        seal::open(&mut self.0, Label::Ledger, &mut sealed)?.first_chunk().copied().ok_or(Refused).map(Some)
    }
}
