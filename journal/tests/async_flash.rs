//! A journal on an asynchronous flash with futures that need several polls.
#![cfg(feature = "embedded-storage-async")]

use damper_core::accounting::{Record, Store};
use damper_core::prelude::*;
use damper_core::step::StepConfig as _;
use damper_journal::{BlockOn, Configuration, FirstBoot, Journal, JournalError, Snapshots};
use embedded_storage::nor_flash::{ErrorType, NorFlash as _, NorFlashErrorKind, ReadNorFlash as _};
use embedded_storage_async::nor_flash::{NorFlash, ReadNorFlash};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

const SECTOR: usize = 1024;

/// The charged step.
fn step() -> DpSgdConfig {
    DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build().unwrap()
}

fn run() -> Configuration {
    Configuration::of_ledger(100, &step(), 3)
}

/// Simulated flash in RAM. Every call is pending a few times.
#[derive(Debug)]
struct Mock {
    bytes: Vec<u8>,
    polls: u32,
    fails: bool,
}

/// Ready at the fourth poll.
struct Later(u32);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0 += 1;
        context.waker().wake_by_ref();
        if self.0 < 4 { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl ErrorType for Mock {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Mock {
    const READ_SIZE: usize = 1;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        Later(0).await;
        self.polls += 4;
        bytes.copy_from_slice(&self.bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl NorFlash for Mock {
    const WRITE_SIZE: usize = 8;
    const ERASE_SIZE: usize = SECTOR;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        Later(0).await;
        self.bytes[from as usize..to as usize].fill(0xff);
        Ok(())
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        Later(0).await;
        if self.fails {
            return Err(NorFlashErrorKind::Other);
        }
        let places = self.bytes[offset as usize..].iter_mut();
        places.zip(bytes).for_each(|(place, byte)| *place &= byte);
        Ok(())
    }
}

fn record(paid: u32) -> Record {
    Record { budget: 100, paid, divergence: 0.0, order: 0, fingerprint: step().fingerprint(3) }
}

// Charges and snapshots on an asynchronous flash survive a restart.
#[test]
fn async_flash_keeps_charges_and_snapshots() {
    let mock = || BlockOn::new(Mock { bytes: vec![0xff; 4 * SECTOR], polls: 0, fails: false });
    let mut journal = Journal::provision(mock(), run(), FirstBoot::confirmed_by_owner()).unwrap();
    // Over several sectors.
    (1..=40).for_each(|paid| journal.persist(record(paid)).unwrap());
    let mut flash = journal.release().release();
    assert!(flash.polls > 0);
    flash.fails = true;
    let mut journal = Journal::open(BlockOn::new(flash), run()).unwrap();
    assert_eq!(journal.record(), record(40));
    assert_eq!(journal.persist(record(41)), Err(JournalError::Flash(NorFlashErrorKind::Other)));

    let mut snapshots = Snapshots::open(mock(), run(), 40).unwrap();
    let mut params = [1.5f32, -2.0];
    snapshots.save(7, &mut params.as_mut_slice()).unwrap();
    let mut snapshots = Snapshots::open(snapshots.release(), run(), 40).unwrap();
    params.fill(0.0);
    snapshots.load(&mut params.as_mut_slice()).unwrap();
    assert_eq!((params, snapshots.newest()), ([1.5, -2.0], Some(7)));
}

#[test]
fn wrapped_flash_has_the_same_geometry() {
    let mut flash = BlockOn::new(Mock { bytes: vec![0; 2 * SECTOR], polls: 0, fails: false });
    assert_eq!((flash.capacity(), BlockOn::<Mock>::WRITE_SIZE, BlockOn::<Mock>::ERASE_SIZE), (2 * SECTOR, 8, SECTOR));
    flash.erase(0, SECTOR as u32).unwrap();
    flash.write(8, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut found = [0; 12];
    flash.read(4, &mut found).unwrap();
    assert_eq!(found, [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8]);
}
