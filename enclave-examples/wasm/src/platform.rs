//! The module's imports. `platform` is hardware or a service about which the host cannot lie. `host` is the host, which
//! may keep, lose or replay the blobs that it gets.

use damper_enclave_run::{Platform, Refused, SEALED_LEDGER};

#[link(wasm_import_module = "platform")]
unsafe extern "C" {
    /// Returns the count of the monotonic counter.
    safe fn counter_read() -> u64;
    /// Adds 1 to the counter and returns the new count.
    safe fn counter_increment() -> u64;
    /// Writes 32 bytes that only this module on this machine ever gets.
    fn sealing_key(to: *mut u8);
    /// Writes `len` random bytes.
    fn entropy(to: *mut u8, len: usize);
}

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Asks the host to store the sealed ledger. Returns 1 if it claims that it did.
    fn put_ledger(from: *const u8, len: usize) -> u32;
    /// Writes the sealed ledger, of at most `len` bytes, and returns its length, or 0 if there is none.
    fn get_ledger(to: *mut u8, len: usize) -> usize;
}

/// Platform and host through the imports.
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
        // SAFETY: the platform writes `bytes.len()` bytes.
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
