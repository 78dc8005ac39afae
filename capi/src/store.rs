//! The caller's store for the ledger of a run.

use core::ffi::{c_int, c_void};
use damper_core::accounting::Store;

/// A record that survives a restart.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Record {
    /// Steps that may be released in all; of a Renyi filter, 0.
    pub budget: u32,
    /// Steps charged, those reserved included.
    pub paid: u32,
    /// The divergence that a Renyi filter spent; 0 of a ledger.
    pub divergence: f64,
    /// The Rényi order of a filter; 0 for a ledger.
    pub order: u32,
    /// The fingerprint of the configuration that is charged: of all that the price depends on. 0 where no step was charged.
    pub fingerprint: u64,
}

/// Persists a record in the place of the one before it. Returns 0 only when the record would survive a power cut; else
/// nothing is released. The record is valid during the call alone. It must not jump or throw out of the call, and the
/// run's functions answer it `DAMPER_STATUS_BUSY`.
pub type Persist = Option<unsafe extern "C" fn(context: *mut c_void, record: *const Record) -> c_int>;

/// The caller's function that persists a record.
#[derive(Clone, Copy)]
pub(crate) enum Callback {
    None,
    Call(unsafe extern "C" fn(*mut c_void, *const Record) -> c_int, *mut c_void),
}

impl Callback {
    pub(crate) const NONE: Self = Self::None;

    pub(crate) fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The callback did not say that the record is durable.
pub(crate) struct Undurable;

impl Store for Callback {
    type Error = Undurable;

    fn persist(&mut self, record: damper_core::accounting::Record) -> Result<(), Undurable> {
        let damper_core::accounting::Record { budget, paid, divergence, order, fingerprint } = record;
        let record = Record { budget, paid, divergence, order, fingerprint };
        match *self {
            Self::None => Err(Undurable),
            // SAFETY: a function of this type by the contract of the header, and a record that lives during the call.
            Self::Call(persist, context) => match unsafe { persist(context, &raw const record) } {
                0 => Ok(()),
                _ => Err(Undurable),
            },
        }
    }
}
