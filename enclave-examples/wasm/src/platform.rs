//! The module's imports. `platform` stands for hardware or a service that the host cannot lie about; `host` is the host,
//! which may keep, lose or replay what it is given.

use crate::seal::{self, Label, Refused};
use damper_journal::{BLOB, MonotonicCounter, Vault};

#[link(wasm_import_module = "platform")]
unsafe extern "C" {
    /// The count of the monotonic counter.
    safe fn counter_read() -> u64;
    /// Adds 1 to the counter; the new count.
    safe fn counter_increment() -> u64;
    /// Writes 32 bytes that only this module on this machine is ever given.
    fn sealing_key(to: *mut u8);
    /// Writes `len` random bytes.
    fn entropy(to: *mut u8, len: usize);
}

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Keeps the sealed ledger; whether it says that it did.
    fn put_ledger(from: *const u8, len: usize) -> u32;
    /// Writes the sealed ledger, of at most `len` bytes; its length, 0 if there is none.
    fn get_ledger(to: *mut u8, len: usize) -> usize;
}

/// The sealing key.
pub fn key() -> [u8; 32] {
    let mut key = [0; 32];
    // SAFETY: the platform writes 32 bytes.
    unsafe { sealing_key(key.as_mut_ptr()) };
    key
}

/// Random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the platform writes as many bytes as it is told.
    unsafe { entropy(bytes.as_mut_ptr(), N) };
    bytes
}

/// The platform's counter.
pub struct Counter;

impl MonotonicCounter for Counter {
    type Error = core::convert::Infallible;

    fn read(&mut self) -> Result<u64, Self::Error> {
        Ok(counter_read())
    }

    fn increment(&mut self) -> Result<u64, Self::Error> {
        Ok(counter_increment())
    }
}

/// The ledger's blob, sealed here and kept by the host.
pub struct Shelf;

const SEALED: usize = BLOB + seal::OVERHEAD;

impl Vault for Shelf {
    type Error = Refused;

    fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Refused> {
        let mut sealed = [0; SEALED];
        sealed.iter_mut().zip(blob).for_each(|(to, byte)| *to = *byte);
        seal::seal(Label::Ledger, &mut sealed)?;
        // SAFETY: the host reads `SEALED` bytes.
        if unsafe { put_ledger(sealed.as_ptr(), SEALED) } == 1 { Ok(()) } else { Err(Refused) }
    }

    fn get(&mut self) -> Result<Option<[u8; BLOB]>, Refused> {
        let mut sealed = [0; SEALED];
        // SAFETY: the host writes at most `SEALED` bytes.
        match unsafe { get_ledger(sealed.as_mut_ptr(), SEALED) } {
            0 => Ok(None),
            SEALED => seal::open(Label::Ledger, &mut sealed)?.first_chunk().copied().ok_or(Refused).map(Some),
            _ => Err(Refused),
        }
    }
}
