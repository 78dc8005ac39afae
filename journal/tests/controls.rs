//! Journals with deliberate faults. The checks of `training` must detect each: a check that no faulty journal fails
//! proves nothing.

#[path = "flash/nor.rs"]
mod flash;
#[path = "training/run.rs"]
mod training;

use damper_core::accounting::{ReadStore, Record, Store};
use damper_journal::{Configuration, FirstBoot, Journal};
use embedded_storage::nor_flash::{NorFlash, ReadNorFlash};
use flash::{Failed, Flash};
use training::{Keeper, Plan, cuts_after, train};

type Chip = Flash<4, 512>;

const PLAN: Plan = Plan { ledger: Some((12, 1)), snapshot_every: 3, journal: 2, snapshots: 2 };

/// The checks that fail if a run is cut at each of its events, and then at times, or again before the next write.
fn broken<K: Keeper<Chip>>(provision: impl Fn(&Chip)) -> Vec<String>
where
    K::Error: std::fmt::Debug,
{
    let run = |seed, cuts: &mut dyn FnMut(u32) -> Option<u64>| {
        let flash = PLAN.flash(seed);
        provision(&flash.part(0, PLAN.journal));
        (train::<K, 4, 512>(&PLAN, &flash, cuts).err(), flash.events())
    };
    let (_, events) = run(1, &mut |_| None);
    let mut broken = Vec::new();
    for first in 0..events {
        broken.extend(run(first + 2, &mut cuts_after(first, first, 60)).0);
        for seed in 0..4 {
            broken.extend(
                run(events * seed + first + 2, &mut |restarts| {
                    [Some(first), Some(0), Some(0), Some(0)].get(restarts as usize).copied().flatten()
                })
                .0,
            );
        }
    }
    broken
}

/// A log of bare numbers, one word each, over one or two sectors. Its type parameter selects the fault.
struct Log<const WRONG: u8> {
    flash: Chip,
    run: Record,
    next: u32,
    sector: u32,
    waiting: Option<u32>,
}

/// Returns from a charge before it is persisted, and writes it with the next.
const RELEASES_FIRST: u8 = 0;
/// Erases the only copy before it writes the next.
const ERASES_FIRST: u8 = 1;
/// Reports a number that a cut may have torn, without writing it again.
const BELIEVES: u8 = 2;

const SECTOR: u32 = 512;

impl<const WRONG: u8> Log<WRONG> {
    /// A number and its complement, so that a torn pair is detected.
    fn pair(&mut self, at: u32) -> [u32; 2] {
        let mut bytes = [[0; 4]; 2];
        self.flash.read(at, bytes.as_flattened_mut()).unwrap_or_default();
        bytes.map(u32::from_le_bytes)
    }

    fn write(&mut self, paid: u32) -> Result<(), Failed> {
        if self.next == SECTOR / 8 || WRONG == ERASES_FIRST {
            self.sector = if WRONG == ERASES_FIRST { 0 } else { 1 - self.sector };
            self.next = 0;
            self.flash.erase(self.sector * SECTOR, self.sector * SECTOR + SECTOR)?;
        }
        let at = self.sector * SECTOR + self.next * 8;
        self.next += 1;
        self.flash.write(at, [paid, !paid].map(u32::to_le_bytes).as_flattened())
    }
}

impl<const WRONG: u8> Store for Log<WRONG> {
    type Error = Failed;

    fn persist(&mut self, record: Record) -> Result<(), Failed> {
        self.run.paid = record.paid;
        match WRONG {
            RELEASES_FIRST => self.waiting.replace(record.paid).map_or(Ok(()), |paid| self.write(paid)),
            _ => self.write(record.paid),
        }
    }
}

impl<const WRONG: u8> Keeper<Chip> for Log<WRONG> {
    fn open(flash: Chip, _run: Configuration) -> Result<Self, Failed> {
        let run = Record { budget: 12, ..Record::NONE };
        let mut log = Self { flash, run, next: 0, sector: 0, waiting: None };
        for place in 0..2 * SECTOR / 8 {
            let [paid, check] = log.pair(place * 8);
            let blank = paid == u32::MAX && check == u32::MAX;
            if !blank {
                (log.sector, log.next) = (place * 8 / SECTOR, place % (SECTOR / 8) + 1);
            }
            if !blank && check == !paid && paid > log.run.paid {
                log.run.paid = paid;
            }
        }
        Ok(log)
    }
}

impl<const WRONG: u8> ReadStore for Log<WRONG> {
    fn record(&self) -> Record {
        self.run
    }
}

// The checks detect a journal that releases before it persists.
#[test]
fn detects_release_before_persist() {
    let broken = broken::<Log<RELEASES_FIRST>>(|_| ());
    assert!(broken.iter().any(|law| law.contains("paid fell")), "{broken:?}");
}

// The checks detect a journal that erases before it copies.
#[test]
fn detects_erase_before_copy() {
    let broken = broken::<Log<ERASES_FIRST>>(|_| ());
    assert!(broken.iter().any(|law| law.contains("paid fell")), "{broken:?}");
}

// The checks detect a journal that trusts a torn word.
#[test]
fn detects_trust_in_torn_word() {
    let broken = broken::<Log<BELIEVES>>(|_| ());
    assert!(broken.iter().any(|law| law.contains("paid fell")), "{broken:?}");
}

#[test]
fn the_journal_is_not() {
    let provision = |flash: &Chip| {
        Journal::provision(flash.clone(), PLAN.run(), FirstBoot::confirmed_by_owner()).map(|_| ()).unwrap()
    };
    assert_eq!(broken::<Journal<Chip>>(provision), Vec::<String>::new());
}
