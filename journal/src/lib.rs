//! The privacy ledger of a device or an enclave in persistent storage: no restart forgets a charge.
//!
//! ```text
//! core::accounting::Store
//!    ▲                 ▲
//! Journal           SealedJournal   Snapshots: released parameters and state, which training goes on from
//!    │                 │                │
//! NOR flash    counter + sealed blob    NOR flash
//! ```
//!
//! - [`Journal`] appends every charge to a ring of erase sectors, for microcontrollers.
//! - [`SealedJournal`] keeps the newest charge in a blob whose age a monotonic counter tells, for enclaves.
//! - [`Snapshots`] keeps the newest released parameters beside a journal.
//! - [`Region`] is a part of a flash: one for the journal, one for the snapshots.
//! - [`Configuration`] is what each of them is bound to.
//!
//! A flash is a driver that implements `NorFlash` of `embedded-storage`, as those of the chips' HALs do. With the feature
//! `embedded-storage-async`, `BlockOn` makes one of an asynchronous driver. [`Journal`] states what it expects of a driver.
//!
//! What they protect from, and what they do not, is in `docs/threat-model.md`.
//!
//! ```
//! use damper_core::prelude::*;
//! use damper_journal::{Configuration, Journal, JournalError};
//! use embedded_storage::nor_flash::NorFlash;
//!
//! const STEPS: u32 = 1000;
//! const D: usize = 650;
//!
//! /// Of the step that is charged, and what it does not know: the run's number and its data.
//! fn run(config: &DpSgdConfig) -> Configuration {
//!     Configuration::of_ledger(STEPS, config, D).with(b"run 7, digits")
//! }
//!
//! /// After each restart. In the factory, once: `Journal::provision(flash, run(config), FirstBoot::confirmed_by_owner())`.
//! fn resume<F: NorFlash>(flash: F, config: &DpSgdConfig) -> Result<Ledger<Journal<F>>, JournalError<F::Error>> {
//!     let journal = Journal::open(flash, run(config))?;
//!     let ledger = Ledger::open(journal, STEPS).map_err(|_| JournalError::OtherConfiguration)?;
//!     Ok(ledger.with_reserve(8))
//! }
//! ```
//!
//! Each step is then charged to it: `step.open(&mut state, &mut ledger)`.
//!
//! # Keys
//!
//! Noise is addressed by step number, so a generator has no state to persist: the ledger's number is the state. A number is
//! charged before it is given out and never given out again, over any number of restarts. Hence no block of noise is used
//! twice **under one key**. A new journal starts at 0: each provisioning needs a key of its own. Each restart may take a fresh one
//! ([`Key`](damper_core::noise::Key) says why).
//!
//! # Why not `sequential-storage`
//!
//! It is made for settings and queues, where a damaged item is best ignored and an older value beats none. A ledger that
//! ignores its newest entry has forgotten charges. It is asynchronous, and its format changes with its major version. What a
//! ledger needs, one kind of entry that only grows, is less.
#![no_std]
#![forbid(unsafe_code)]

mod block;
#[cfg(feature = "embedded-storage-async")]
mod block_on;
mod configuration;
mod first_boot;
mod journal;
mod region;
mod sealed;
mod snapshot;

#[cfg(feature = "embedded-storage-async")]
pub use block_on::BlockOn;
pub use configuration::Configuration;
pub use first_boot::FirstBoot;
pub use journal::{Journal, JournalError};
pub use region::{Region, RegionError};
pub use sealed::{Allowance, BLOB, MonotonicCounter, SealedError, SealedJournal, Vault};
pub use snapshot::{SnapshotError, Snapshots};

// Tested with an allocator; it has none itself.
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_docs_say() {
        assert!(
            size_of::<Journal<()>>() <= 48
                && size_of::<Snapshots<()>>() <= 56
                && size_of::<SealedJournal<(), ()>>() <= 80
        );
    }
}
