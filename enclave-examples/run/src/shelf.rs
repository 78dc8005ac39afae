//! A ledger's store on a platform: the counter, and the blob that the host stores.

use crate::platform::{Platform, Refused, SEALED_LEDGER};
use crate::seal::{self, Label};
use damper_journal::{BLOB, MonotonicCounter, Vault};

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

/// The ledger's blob, sealed here and stored by the host.
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
