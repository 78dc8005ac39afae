//! Flash with faults at torn words, and flash in which a cut also damages other words. `power_cuts.rs` tests whole runs
//! on flash with error correction.

#[path = "flash/nor.rs"]
mod flash;

use damper_core::accounting::{Record, Store};
use damper_core::prelude::*;
use damper_core::step::StepConfig as _;
use damper_journal::{Configuration, FirstBoot, Journal, JournalError};
use flash::{Chip, Ecc, Failed, Flash};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The charged step.
fn step() -> DpSgdConfig {
    DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build().unwrap()
}

fn run() -> Configuration {
    Configuration::of_ledger(1000, &step(), 3)
}

/// The number of events that cover the charges of a session.
const EVENTS: u64 = 260;

fn record(paid: u32) -> Record {
    Record { budget: 1000, paid, divergence: 0.0, order: 0, fingerprint: step().fingerprint(3) }
}

fn flash<const W: usize, const E: usize>(seed: u64, kind: impl Fn(&mut Chip)) -> Flash<W, E> {
    let flash = Flash::erased(3, seed);
    kind(&mut flash.chip.borrow_mut());
    Journal::provision(flash.clone(), run(), FirstBoot::confirmed_by_owner()).unwrap();
    flash
}

/// Charges in steps of one from `paid` until the power fails. Returns the last charge that succeeded.
fn charge<const W: usize, const E: usize>(journal: &mut Journal<Flash<W, E>>, paid: u32) -> u32 {
    (paid + 1..paid + 10).take_while(|next| journal.persist(record(*next)).is_ok()).last().unwrap_or(paid)
}

type Opened<const W: usize, const E: usize> = Result<Journal<Flash<W, E>>, JournalError<Failed>>;

/// Opens until the power lasts. Each entry of `cuts` is one more restart that loses power after this many events.
fn restart<const W: usize, const E: usize>(flash: &Flash<W, E>, cuts: &[u64]) -> Opened<W, E> {
    for cut in cuts {
        flash.power_on(Some(*cut));
        let _ = Journal::open(flash.clone(), run());
    }
    flash.power_on(None);
    Journal::open(flash.clone(), run())
}

// If a driver lets the fault through, the device never starts again. If it returns an error, no charge is lost.
#[test]
fn fault_must_become_an_error() {
    let mut stuck = 0;
    for first in 0..EVENTS {
        let run = |ecc: Ecc| {
            let flash = flash::<8, 512>(first + 1, |chip| chip.ecc = ecc);
            let mut journal = Journal::open(flash.clone(), run()).unwrap();
            flash.power_on(Some(first));
            let charged = catch_unwind(AssertUnwindSafe(|| charge(&mut journal, 0)));
            let opened = catch_unwind(AssertUnwindSafe(|| restart(&flash, &[])));
            (charged, opened)
        };
        let (charged, opened) = run(Ecc::Error);
        let journal = opened.unwrap().unwrap_or_else(|error| panic!("cut at {first}: {error:?}"));
        assert!(journal.record().paid >= charged.unwrap(), "cut at {first}");
        stuck += usize::from(run(Ecc::Fault).1.is_err());
    }
    assert!(stuck > 20, "{stuck} of {EVENTS}");
}

/// Cuts the power, followed by restarts, on flash in which cuts damage other words. No charge is lost, and the journal
/// opens.
fn survives<const W: usize, const E: usize>(kind: fn(&mut Chip)) {
    for seed in 0..EVENTS * 12 {
        let first = seed % EVENTS;
        let flash = flash::<W, E>(seed + 1, kind);
        let mut journal = Journal::open(flash.clone(), run()).unwrap();
        flash.power_on(Some(first));
        let mut paid = charge(&mut journal, 0);
        for again in 0..4 {
            let mut journal = restart(&flash, &[])
                .unwrap_or_else(|error| panic!("words of {W}, seed {seed}, cut at {first}, {again}: {error:?}"));
            let found = journal.record().paid;
            assert!(found >= paid, "words of {W}, seed {seed}: {found} of {paid}");
            flash.power_on(Some((first * 7 + again * 11) % 60));
            paid = charge(&mut journal, found).max(found);
        }
    }
}

// A cut that tears one copy and damages another leaves the third. With two copies this test fails.
#[test]
fn third_copy_survives_page_disturb() {
    fn plain(chip: &mut Chip) {
        (chip.refuses_touched, chip.disturbed_page) = (true, 256);
    }
    fn corrected(chip: &mut Chip) {
        (chip.ecc, chip.disturbed_page) = (Ecc::Error, 256);
    }
    survives::<4, 512>(plain);
    survives::<8, 512>(corrected);
    survives::<16, 1024>(corrected);
}

// Any two copies of the newest charge may be lost, in any position.
#[test]
fn third_copy_survives_loss_of_two() {
    let flash = flash::<4, 512>(1, |_| ());
    let mut journal = Journal::open(flash.clone(), run()).unwrap();
    assert_eq!(charge(&mut journal, 0), 9);
    let bytes = flash.chip.borrow().bytes.clone();
    let of_newest = |at: &usize| bytes[*at..][..32].starts_with(b"DJL1") && bytes[at + 24..][..4] == 9u32.to_le_bytes();
    let copies: Vec<usize> = (0..bytes.len()).step_by(32).filter(of_newest).collect();
    for kept in 0..copies.len().max(3) {
        let flash = flash.copied();
        let lost = copies.iter().enumerate().filter(|(copy, _)| *copy != kept);
        flash.corrupt(|bytes| lost.for_each(|(_, at)| bytes[at + 4] ^= 0x10));
        assert_eq!(Journal::open(flash, run()).unwrap().record().paid, 9, "the copy left is {kept}");
    }
}

// Copies lost in several consecutive cuts are detected: the journal does not open with less than the charge.
#[test]
fn lost_charge_never_opens() {
    let mut refused = 0;
    for seed in 0..4000 {
        let flash = flash::<8, 512>(seed + 1, |chip| (chip.ecc, chip.disturbed_page) = (Ecc::Error, 256));
        let mut journal = Journal::open(flash.clone(), run()).unwrap();
        flash.power_on(Some(60 + seed % 150));
        let paid = charge(&mut journal, 0);
        let cuts: Vec<u64> = (0..6).map(|cut| (seed >> cut) % 9).collect();
        match restart(&flash, &cuts) {
            Ok(journal) => assert!(journal.record().paid >= paid, "seed {seed}"),
            Err(JournalError::Corrupted) => refused += 1,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    println!("{refused} of 4000 refused");
    assert!(refused > 0);
}
