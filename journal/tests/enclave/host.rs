//! A host with the counter and the blobs of a sealed ledger.

use damper_journal::{BLOB, MonotonicCounter, Vault};
use std::cell::RefCell;
use std::rc::Rc;

/// The counter, and the blobs of the ledger.
#[derive(Default)]
pub struct Host {
    pub count: u64,
    /// Every blob that it received. None is forged.
    pub blobs: Vec<[u8; BLOB]>,
    /// Index of the blob that it returns. None if it returns no blob.
    pub gives: Option<usize>,
    /// Calls until the enclave crashes.
    pub crash: Option<u32>,
}

impl Host {
    /// Returns true if the enclave crashes here. After a crash, every call fails.
    fn crashes(&mut self) -> bool {
        match &mut self.crash {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

/// The enclave's handle to a host.
#[derive(Clone, Default)]
pub struct Shared(pub Rc<RefCell<Host>>);

impl MonotonicCounter for Shared {
    type Error = &'static str;

    fn read(&mut self) -> Result<u64, &'static str> {
        let host = &mut *self.0.borrow_mut();
        if host.crashes() { Err("crash") } else { Ok(host.count) }
    }

    fn increment(&mut self) -> Result<u64, &'static str> {
        let host = &mut *self.0.borrow_mut();
        if host.crashes() {
            return Err("crash before counting");
        }
        host.count += 1;
        if host.crashes() { Err("crash after counting") } else { Ok(host.count) }
    }
}

impl Vault for Shared {
    type Error = &'static str;

    fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), &'static str> {
        let host = &mut *self.0.borrow_mut();
        if host.crashes() {
            return Err("crash before the host has it");
        }
        host.blobs.push(*blob);
        host.gives = Some(host.blobs.len() - 1);
        if host.crashes() { Err("crash after the host has it") } else { Ok(()) }
    }

    fn get(&mut self) -> Result<Option<[u8; BLOB]>, &'static str> {
        let host = &mut *self.0.borrow_mut();
        if host.crashes() { Err("crash") } else { Ok(host.gives.and_then(|at| host.blobs.get(at).copied())) }
    }
}
