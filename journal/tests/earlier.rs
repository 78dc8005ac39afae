//! Journals, snapshots and a sealed ledger of an earlier version, in `tests/earlier/`. They open with their charges and
//! take a step.

#[path = "flash/nor.rs"]
mod flash;
#[path = "enclave/host.rs"]
mod host;

use damper_core::accounting::RenyiFilter;
use damper_core::prelude::*;
use damper_journal::{Allowance, Configuration, Journal, SealedJournal, Snapshots};
use flash::Flash;
use host::{Host, Shared};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

const D: usize = 4;
const BUDGET: u32 = 12;

fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/earlier").join(name)).unwrap()
}

/// Two sectors with the content of a file.
fn flash_of<const E: usize>(name: &str) -> Flash<8, E> {
    let flash = Flash::erased(2, 1);
    flash.corrupt(|cells| cells.copy_from_slice(&read(name)));
    flash
}

/// The charged step.
fn step() -> DpSgdConfig {
    let step = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.1).momentum(0.9).expected_batch(2);
    step.poisson_batches(Rate::of(1, 2).unwrap(), 4).build().unwrap()
}

fn ledger_of(name: &[u8]) -> Configuration {
    Configuration::of_ledger(BUDGET, &step(), D).with(name)
}

#[test]
fn ledger_has_its_charges() {
    let (flash, run) = (flash_of::<4096>("ledger.bin"), ledger_of(b"run 1"));
    let journal = Journal::open(flash.clone(), run).unwrap();
    assert_eq!((journal.record().paid, journal.record().budget), (7, BUDGET));
    let mut ledger = Ledger::open(journal, BUDGET).unwrap();
    assert_eq!(step().begin(&mut step().state::<D>(), &mut ledger).unwrap().unwrap().number(), 7);
    assert_eq!(Journal::open(flash, run).unwrap().record().paid, 8);
}

#[test]
fn snapshot_has_its_bits() {
    let mut snapshots = Snapshots::open(flash_of::<512>("snapshots.bin"), ledger_of(b"run 1"), 7).unwrap();
    assert_eq!(snapshots.newest(), Some(6));
    let (mut params, mut state) = ([0.0f32; D], step().state::<D>());
    snapshots.load(&mut (&mut params, &mut state)).unwrap();
    assert_eq!(params.map(f32::to_bits), [0xbe46_f5c6, 0x3c36_ed28, 0x3d73_de3c, 0xbf1e_a22a]);
    assert_eq!(state.optimizer.momentum.map(f32::to_bits), [0x3c16_6e38, 0x3ea1_b51f, 0xbf0c_6c74, 0x3f9e_1012]);
}

// The journal is full: the tenth charge erases a sector.
#[test]
fn filter_has_its_divergence() {
    let run = Configuration::of_filter(8, 12.0, 1e-5, &step(), D).with(b"run 2");
    let mut journal = Journal::open(flash_of::<512>("filter.bin"), run).unwrap();
    let mut filter = RenyiFilter::open(&journal, 8, 12.0, 1e-5).unwrap();
    assert_eq!((filter.charged_steps(), filter.spent().to_bits()), (9, 0x4003_5555_5555_555d));
    drop(step().open_adaptive(&mut step().state::<D>(), 3.0, Rate::ONE, &mut filter, &mut journal).unwrap());
    assert_eq!(journal.record().paid, 10);
}

// The sixth step was reserved, and its outcome is unknown, so it is lost.
#[test]
fn sealed_ledger_has_its_charges() {
    let file = read("sealed.bin");
    let (count, blob) = file.split_first_chunk().unwrap();
    let (count, blobs) = (u64::from_le_bytes(*count), vec![blob.try_into().unwrap()]);
    let host = Shared(Rc::new(RefCell::new(Host { count, blobs, gives: Some(0), crash: None })));
    let most = Allowance { steps: 2, divergence: 0.0 };
    let sealed = SealedJournal::open(host.clone(), host, ledger_of(b"run 3"), most).unwrap();
    assert_eq!((sealed.record().paid, sealed.record().budget), (6, BUDGET));
    let mut ledger = Ledger::open(sealed, BUDGET).unwrap().with_reserve(2);
    assert_eq!(step().begin(&mut step().state::<D>(), &mut ledger).unwrap().unwrap().number(), 6);
}
