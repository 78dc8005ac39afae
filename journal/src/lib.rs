//! Where a device or an enclave keeps the privacy ledger, so that no restart forgets what was paid.
//!
//! ```text
//! core::accounting::Store
//!    ▲                 ▲
//! Journal           Sealed          Snapshots: released parameters and state, which training goes on from
//!    │                 │                │
//! NOR flash    counter + sealed blob    NOR flash
//! ```
//!
//! - [`Journal`] appends every payment to a ring of erase sectors, for microcontrollers.
//! - [`Sealed`] keeps the newest payment in a blob whose age a monotonic counter tells, for enclaves.
//! - [`Snapshots`] keeps the newest released parameters beside a journal.
//! - [`Configuration`] is what each of them is bound to.
//!
//! What they protect from, and what they do not, is in `docs/threat-model.md`.
//!
//! # Keys
//!
//! Noise is addressed by step number, so a generator has no state to persist: the ledger's number is the state. A number is
//! paid for before it is given out and never given out again, over any number of restarts; hence no block of noise is used
//! twice **under one key**. A new journal starts at 0: each provisioning needs a key of its own.
//!
//! # Why not `sequential-storage`
//!
//! It is made for settings and queues, where a damaged item is best ignored and an older value beats none. A ledger that
//! ignores its newest entry has forgotten payments. It is asynchronous, and its format changes with its major version. What a
//! ledger needs, one kind of entry that only grows, is less.
#![no_std]
#![forbid(unsafe_code)]

mod block;
mod configuration;
mod journal;
mod sealed;
mod snapshot;

pub use configuration::Configuration;
pub use journal::{Journal, JournalError};
pub use sealed::{Allowance, BLOB, MonotonicCounter, Sealed, SealedError, Vault};
pub use snapshot::{SnapshotError, Snapshots};

// Documented and tested with an allocator; it has none itself.
#[cfg(test)]
extern crate std;
