//! The privacy ledger of a device or an enclave in persistent storage. Every charge survives restarts.
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
//! - [`SealedJournal`] keeps the newest charge in a sealed blob, with a monotonic counter that detects old blobs, for
//!   enclaves.
//! - [`Snapshots`] keeps the newest released parameters next to a journal.
//! - [`Region`] is a part of a flash: one for the journal, one for the snapshots.
//! - [`Configuration`] identifies the run that each of them belongs to.
//!
//! A flash is a driver that implements `NorFlash` of `embedded-storage`, as the drivers in the chips' HALs do. With the
//! feature `embedded-storage-async`, `BlockOn` adapts an asynchronous driver. [`Journal`] states its requirements on a
//! driver.
//!
//! `docs/threat-model.md` states the attacks that these types prevent, and those that they do not.
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
//! The ledger then charges each step: `step.open(&mut state, &mut ledger)`. With a flash in RAM, for a test:
//!
//! ```
//! use core::cell::RefCell;
//! use damper_core::prelude::*;
//! use damper_journal::{
//!     Allowance, Configuration, FirstBoot, Journal, JournalError, Region, RegionError, SnapshotError, Snapshots,
//! };
//! use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash};
//!
//! struct Ram(Vec<u8>);
//! impl ErrorType for Ram {
//!     type Error = NorFlashErrorKind;
//! }
//! impl ReadNorFlash for Ram {
//!     const READ_SIZE: usize = 1;
//!     fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
//!         bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
//!         Ok(())
//!     }
//!     fn capacity(&self) -> usize {
//!         self.0.len()
//!     }
//! }
//! impl NorFlash for Ram {
//!     const WRITE_SIZE: usize = 4;
//!     const ERASE_SIZE: usize = 1024;
//!     fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
//!         self.0[from as usize..to as usize].fill(0xff);
//!         Ok(())
//!     }
//!     fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
//!         self.0[offset as usize..][..bytes.len()].copy_from_slice(bytes);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let step = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
//! let run = Configuration::of_ledger(100, &step, 3);
//! let flash = RefCell::new(Ram(vec![0xff; 8192]));
//! let (first, second) = (0..4096, 4096..8192);
//!
//! // A blank region is not a journal without charges. The owner begins a run.
//! assert!(matches!(Journal::open(Region::new(&flash, first.clone()), run), Err(JournalError::Blank)));
//! let journal = Journal::provision(Region::new(&flash, first.clone()), run, FirstBoot::confirmed_by_owner());
//! let (mut state, mut params) = (step.state::<3>(), [0.0f32; 3]);
//! let mut ledger = Ledger::open(journal.unwrap(), 100)?;
//! step.open(&mut state, &mut ledger).unwrap().finish(&mut params, &NoiseRng::simulation(1))?;
//! let mut snapshots = Snapshots::open(Region::new(&flash, second.clone()), run, 1).unwrap();
//! snapshots.save(1, &mut params).unwrap();
//! drop((snapshots.release(), ledger.into_store().release()));
//!
//! // After a restart, the journal has the charge, and the snapshot the parameters.
//! let journal = Journal::open(Region::new(&flash, first.clone()), run).unwrap();
//! let mut snapshots = Snapshots::open(Region::new(&flash, second.clone()), run, journal.record().paid).unwrap();
//! let mut restored = [0.0f32; 3];
//! snapshots.load(&mut restored).unwrap();
//! assert_eq!((journal.record().paid, snapshots.newest(), restored), (1, Some(1), params));
//!
//! // A damaged journal continues with more charges than before, and never with fewer.
//! let region = Region::new(&flash, first);
//! assert!(Journal::recover(region, run, Allowance { steps: 1, divergence: 0.0 }).unwrap().record().paid >= 1);
//! // A ledger with fewer steps than the snapshot is an older image.
//! let older = Snapshots::open(Region::new(&flash, second), run, 0);
//! assert!(matches!(older, Err(SnapshotError::LedgerBehind)));
//! let mut small = Region::new(&flash, 0..1024);
//! assert_eq!(small.read(1024, &mut [0]), Err(RegionError::OutOfBounds));
//! # Ok(())
//! # }
//! ```
//!
//! # Keys
//!
//! The step number addresses the noise, so a generator has no state to persist: the ledger's number is the state. A
//! number is charged before it is used, and is never used again, over any number of restarts. So no block of noise is
//! used twice **under one key**. A new journal starts at 0, so each provisioning needs its own key. Each restart may
//! use a fresh key ([`Key`](damper_core::noise::Key) gives the reason).
//!
//! # Comparison with `sequential-storage`
//!
//! That crate serves settings and queues. For these it is best to ignore a damaged item, and an older value is better
//! than none. A ledger that ignores its newest entry loses charges. The crate is asynchronous, and its format changes
//! with its major version. A ledger needs less: one kind of entry that only grows.
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

// Tests use an allocator. The crate has none.
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
