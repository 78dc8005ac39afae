//! The caller's store for the ledger of a run.

use core::ffi::{c_int, c_void};
use damper_core::accounting::Store;

/// A record that survives a restart.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Record {
    /// Steps that may be released in total. 0 for a Renyi filter.
    pub budget: u32,
    /// Steps charged, including reserved steps.
    pub paid: u32,
    /// Divergence charged to a Renyi filter. 0 for a ledger.
    pub divergence: f64,
    /// Rényi order of a filter. 0 for a ledger.
    pub order: u32,
    /// Fingerprint of the charged configuration: of all values that the privacy cost depends on. 0 if no step was
    /// charged.
    pub fingerprint: u64,
}

/// Persists a record and replaces the previous record. Returns 0 only when the record would survive a power cut.
/// Otherwise nothing is released. The record is valid only during the call. The function must not jump or throw out of
/// the call. If it calls a function of the run, that returns `DAMPER_STATUS_BUSY`.
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

/// The callback did not confirm that the record is durable.
pub(crate) struct Undurable;

impl Store for Callback {
    type Error = Undurable;

    fn persist(&mut self, record: damper_core::accounting::Record) -> Result<(), Undurable> {
        let damper_core::accounting::Record { budget, paid, divergence, order, fingerprint } = record;
        let record = Record { budget, paid, divergence, order, fingerprint };
        match *self {
            Self::None => Err(Undurable),
            // SAFETY: by the contract of the header a function of this type, and a record that lives during the call.
            Self::Call(persist, context) => match unsafe { persist(context, &raw const record) } {
                0 => Ok(()),
                _ => Err(Undurable),
            },
        }
    }
}
