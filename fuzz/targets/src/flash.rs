//! The ledger's journal and the snapshots, in flash with any content.

use crate::fuzz_bytes::FuzzBytes;
use damper_core::accounting::{Record, Store};
use damper_core::prelude::*;
use damper_core::state::{SaveState, StateField};
use damper_core::step::StepConfig as _;
use damper_journal::{Configuration, FirstBoot, Journal, Snapshots};
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash};

const SECTOR: usize = 512;

/// Memory with flash's rules as a caller observes them. A write only clears bits.
struct Flash(Vec<u8>);

impl ErrorType for Flash {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Flash {
    const READ_SIZE: usize = 4;

    fn read(&mut self, at: u32, out: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        let from = self.0.get(at as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(NorFlashErrorKind::OutOfBounds)?);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl NorFlash for Flash {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = SECTOR;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        assert!(from.is_multiple_of(SECTOR as u32) && to.is_multiple_of(SECTOR as u32), "not aligned");
        self.0.get_mut(from as usize..to as usize).ok_or(NorFlashErrorKind::OutOfBounds)?.fill(0xff);
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        assert!(at.is_multiple_of(4) && bytes.len().is_multiple_of(4), "not aligned");
        let to = self.0.get_mut(at as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        for (to, byte) in to.ok_or(NorFlashErrorKind::OutOfBounds)?.iter_mut().zip(bytes) {
            *to &= byte;
        }
        Ok(())
    }
}

/// Returns flash with the content that the bytes describe. They are used unchanged, as blocks of seven words with the
/// right check, or as changes of the previous content.
fn damaged(mut flash: Vec<u8>, source: &mut FuzzBytes<'_>) -> Flash {
    match source.below(3) {
        0 => {
            let taken = source.bytes(flash.len());
            flash[..taken.len()].copy_from_slice(taken);
        }
        1 => {
            while !source.is_empty() {
                let at = source.below(flash.len() / 32) * 32;
                let mut block = [0; 32];
                // The first words of a right block can be kept.
                let kept = source.below(7) * 4;
                block[..kept].copy_from_slice(&flash[at..at + kept]);
                let taken = source.bytes(28 - kept);
                block[kept..kept + taken.len()].copy_from_slice(taken);
                let check = !block[..28].iter().fold(!0u32, |crc, byte| {
                    (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
                });
                block[28..].copy_from_slice(&check.to_le_bytes());
                // Changes one, two or three copies.
                for copy in 0..source.below(3) + 1 {
                    if let Some(to) = flash.get_mut(at + 32 * copy..).and_then(|rest| rest.get_mut(..32)) {
                        to.copy_from_slice(&block);
                    }
                }
            }
        }
        _ => {
            while !source.is_empty() {
                let at = usize::from(source.u16()) % flash.len();
                flash[at] ^= source.u8();
            }
        }
    }
    Flash(flash)
}

fn step() -> DpSgdConfig {
    DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.1).expected_batch(4).build().expect("in range")
}

fn run() -> Configuration {
    Configuration::of_ledger(100_000, &step(), 3)
}

fn record(paid: u32, divergence: f64) -> Record {
    Record { budget: 100_000, paid, divergence, order: 0, fingerprint: step().fingerprint(3) }
}

/// A journal in any flash does not open, or it continues and has its persisted charges after a restart.
pub fn journal(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let mut journal =
        Journal::provision(Flash(vec![0xff; (source.below(3) + 2) * SECTOR]), run(), FirstBoot::confirmed_by_owner())
            .expect("erased");
    (1..=u32::from(source.u8() % 32)).for_each(|paid| journal.persist(record(paid, 0.0)).expect("it works"));
    let flash = damaged(journal.release().0, source);
    let Ok(mut journal) = Journal::open(flash, run()) else { return };
    for _ in 0..12 {
        let before = journal.record();
        let Some(paid) = before.paid.checked_add(1) else { return };
        let more = record(paid, before.divergence);
        let persisted = journal.persist(more);
        assert!(journal.persist(more).is_err(), "the same payment twice");
        let again = Journal::open(journal.release(), run());
        if persisted.is_err() {
            return;
        }
        // No value is above a divergence that is NaN, so nothing is persisted on it.
        journal = again.expect("it was open before");
        assert_eq!(journal.record(), more);
    }
}

/// A component that saves words.
#[derive(PartialEq, Debug)]
struct Words([u32; 40]);

impl SaveState for Words {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.iter_mut().for_each(|word| take(StateField::Count(word)));
    }
}

/// Snapshots in any flash do not open, or they continue and load the saved state.
pub fn snapshots(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let words = |number: u32| Words(std::array::from_fn(|i| (i as u32).wrapping_mul(number)));
    let mut snapshots = Snapshots::open(Flash(vec![0xff; 4 * SECTOR]), run(), 0).expect("erased");
    (1..=u32::from(source.u8() % 8)).for_each(|paid| snapshots.save(paid, &mut words(paid)).expect("it works"));
    let paid = source.u32();
    let flash = damaged(snapshots.release().0, source);
    let Ok(mut snapshots) = Snapshots::open(flash, run(), paid) else { return };
    assert!(snapshots.newest().is_none_or(|newest| newest <= paid));
    let _ = snapshots.load(&mut words(1));
    for number in 0..4 {
        let Some(next) = paid.checked_add(number + 1) else { return };
        if snapshots.save(next, &mut words(next)).is_err() {
            return;
        }
        snapshots = match Snapshots::open(snapshots.release(), run(), next) {
            Ok(snapshots) => snapshots,
            Err(error) => panic!("what was saved does not open: {error:?}"),
        };
        let mut loaded = words(0);
        assert_eq!(snapshots.load(&mut loaded), Ok(()));
        assert_eq!(loaded, words(next));
    }
}
