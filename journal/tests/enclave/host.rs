//! A host that keeps the counter and the blobs of a sealed ledger.

use damper_journal::{BLOB, MonotonicCounter, Vault};
use std::cell::RefCell;
use std::rc::Rc;

/// The counter, and the blobs of the ledger.
#[derive(Default)]
pub struct Host {
    pub count: u64,
    /// Every blob it was ever given; none is forged.
    pub blobs: Vec<[u8; BLOB]>,
    /// Which one it hands over; none: it says that it has nothing.
    pub gives: Option<usize>,
    /// Calls until the enclave crashes.
    pub crash: Option<u32>,
}

impl Host {
    /// Whether the enclave crashes here. Once it has, every call fails.
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

/// A host as an enclave sees it.
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
