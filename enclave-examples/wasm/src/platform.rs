//! The module's imports. `platform` stands for hardware or a service that the host cannot lie about; `host` is the host,
//! which may keep, lose or replay what it is given.

use damper_enclave_run::{Platform, Refused, SEALED_LEDGER};

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

/// Both, by the imports.
#[derive(Clone, Copy)]
pub struct Imports;

impl Platform for Imports {
    fn count(&mut self) -> Result<u64, Refused> {
        Ok(counter_read())
    }

    fn increment(&mut self) -> Result<u64, Refused> {
        Ok(counter_increment())
    }

    fn sealing_key(&mut self) -> Result<[u8; 32], Refused> {
        let mut key = [0; 32];
        // SAFETY: the platform writes 32 bytes.
        unsafe { sealing_key(key.as_mut_ptr()) };
        Ok(key)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        // SAFETY: the platform writes as many bytes as it is told.
        unsafe { entropy(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn put_ledger(&mut self, sealed: &[u8; SEALED_LEDGER]) -> Result<(), Refused> {
        // SAFETY: the host reads `SEALED_LEDGER` bytes.
        if unsafe { put_ledger(sealed.as_ptr(), SEALED_LEDGER) } == 1 { Ok(()) } else { Err(Refused) }
    }

    fn get_ledger(&mut self) -> Result<Option<[u8; SEALED_LEDGER]>, Refused> {
        let mut sealed = [0; SEALED_LEDGER];
        // SAFETY: the host writes at most `SEALED_LEDGER` bytes.
        match unsafe { get_ledger(sealed.as_mut_ptr(), SEALED_LEDGER) } {
            0 => Ok(None),
            SEALED_LEDGER => Ok(Some(sealed)),
            _ => Err(Refused),
        }
    }
}
