//! Damage that a power cut cannot cause: flipped bits, overwritten and erased words, slots and sectors, foreign
//! content, other configurations. A journal that opens has lost no charge. A journal that may have lost charges does
//! not open.

#[path = "flash/nor.rs"]
mod flash;

use damper_core::accounting::{Record, Store};
use damper_core::prelude::*;
use damper_core::state::{SaveState, StateField};
use damper_core::step::StepConfig as _;
use damper_journal::{
    Allowance, Configuration, FirstBoot, Journal, JournalError, Region, RegionError, SnapshotError, Snapshots,
};
use embedded_storage::nor_flash::{NorFlash, ReadNorFlash};
use flash::Flash;
use proptest::prelude::*;
use std::cell::RefCell;

type Chip = Flash<4, 512>;
const SECTOR: usize = 512;

/// The charged step.
fn step() -> DpSgdConfig {
    DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build().unwrap()
}

fn run() -> Configuration {
    Configuration::of_ledger(1000, &step(), 3)
}

fn filter() -> Configuration {
    Configuration::of_filter(8, 1.0, 1e-5, &step(), 3)
}

fn record(paid: u32) -> Record {
    Record { budget: 1000, paid, divergence: 0.0, order: 0, fingerprint: step().fingerprint(3) }
}

/// State with saved words.
#[derive(PartialEq, Debug)]
struct Words(Vec<u32>);

impl SaveState for Words {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.iter_mut().for_each(|word| take(StateField::Count(word)));
    }
}

fn first_numbers(count: u32) -> Words {
    Words((0..count).collect())
}

#[test]
fn snapshot_keeps_a_whole_state() {
    /// A field of each kind.
    #[derive(PartialEq, Debug)]
    struct All([f32; 5], f64, u32);
    impl SaveState for All {
        fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
            take(StateField::Owner("all"));
            take(StateField::Floats(&mut self.0));
            take(StateField::Double(&mut self.1));
            take(StateField::Count(&mut self.2));
        }
    }
    let mut snapshots = Snapshots::open(Chip::erased(2, 1), run(), 9).unwrap();
    let saved = || All([1.0, -0.0, f32::MIN_POSITIVE, 3.5, -7.25], std::f64::consts::PI, u32::MAX);
    snapshots.save(3, &mut saved()).unwrap();
    let mut loaded = All([0.0; 5], 0.0, 0);
    snapshots.load(&mut loaded).unwrap();
    assert_eq!(loaded, saved());
}

#[test]
fn regions_of_a_flash_do_not_touch() {
    let flash = RefCell::new(Chip::erased(6, 1));
    let region =
        |sectors: std::ops::Range<u32>| Region::new(&flash, sectors.start * SECTOR as u32..sectors.end * SECTOR as u32);
    let mut journal = Journal::provision(region(0..2), run(), FirstBoot::confirmed_by_owner()).unwrap();
    let mut snapshots = Snapshots::open(region(2..6), run(), 9).unwrap();
    for step in 1..=20 {
        journal.persist(record(step)).unwrap();
        snapshots.save(step, &mut first_numbers(200)).unwrap();
    }
    assert_eq!(Journal::open(region(0..2), run()).unwrap().record(), record(20));
    assert_eq!(Snapshots::open(region(2..6), run(), 20).unwrap().newest(), Some(20));
    let mut region = region(2..6);
    let beyond = 4 * SECTOR as u32;
    assert_eq!(region.read(beyond - 4, &mut [0; 8]), Err(RegionError::OutOfBounds));
    assert_eq!(region.write(beyond, &[0; 4]), Err(RegionError::OutOfBounds));
    assert_eq!(region.erase(0, beyond + SECTOR as u32), Err(RegionError::OutOfBounds));
    assert_eq!(Region::new(&flash, 0..u32::MAX).capacity(), 0);
    // Both regions would erase a shared sector.
    assert_eq!(Region::new(&flash, 4..SECTOR as u32 + 4).capacity(), 0);
    let _borrowed = flash.borrow_mut();
    assert_eq!(region.read(0, &mut [0; 4]), Err(RegionError::Busy));
}

/// A journal with this many charges, in sectors of five slots.
fn paid(payments: u32, sectors: usize) -> Chip {
    let mut journal = Journal::provision(Chip::erased(sectors, 1), run(), FirstBoot::confirmed_by_owner()).unwrap();
    (1..=payments).for_each(|paid| journal.persist(record(paid)).unwrap());
    journal.release()
}

/// A journal with this many charges of `reserve` steps each.
fn charged(charges: u32, sectors: usize, reserve: u32) -> Chip {
    let mut journal = Journal::provision(Chip::erased(sectors, 1), run(), FirstBoot::confirmed_by_owner()).unwrap();
    (1..=charges).for_each(|charge| journal.persist(record(charge * reserve)).unwrap());
    journal.release()
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        prop::collection::vec(any::<usize>(), 1..40).prop_map(Damage::Flip),
        (any::<usize>(), 1usize..SECTOR, any::<u64>()).prop_map(|(at, len, seed)| Damage::Noise(at, len, seed)),
        (any::<usize>(), 1usize..SECTOR).prop_map(|(at, len)| Damage::Fill(at, len, 0)),
        (0usize..4, any::<u64>()).prop_map(|(sector, seed)| Damage::Noise(sector * SECTOR, SECTOR, seed)),
    ];
    prop::collection::vec(one, 1..5)
}

/// Checks that a journal that opens has lost no charge, and that this remains so.
fn loses_nothing(flash: &Chip, paid: u32) -> Result<bool, TestCaseError> {
    let Ok(mut journal) = Journal::open(flash.clone(), run()) else { return Ok(false) };
    prop_assert!(journal.record().paid == paid, "{} of {paid}", journal.record().paid);
    for more in 1..20 {
        prop_assert_eq!(journal.persist(record(paid + more)), Ok(()));
        let again = Journal::open(flash.copied(), run());
        prop_assert_eq!(again.map(|journal| journal.record().paid).ok(), Some(paid + more));
    }
    Ok(true)
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(Vec<usize>),
    Fill(usize, usize, u8),
    Noise(usize, usize, u64),
}

impl Damage {
    /// The same damage, limited to this many bytes.
    fn within(&self, bytes: usize) -> Self {
        match self {
            Self::Flip(bits) => Self::Flip(bits.iter().map(|bit| bit % (8 * bytes)).collect()),
            Self::Fill(from, len, with) => Self::Fill(from % (bytes - len + 1), *len, *with),
            Self::Noise(from, len, seed) => Self::Noise(from % (bytes - len + 1), *len, *seed),
        }
    }

    fn apply(&self, flash: &Chip) {
        flash.corrupt(|bytes| match self {
            Self::Flip(bits) => bits.iter().for_each(|bit| bytes[bit / 8 % bytes.len()] ^= 1 << (bit % 8)),
            Self::Fill(from, len, with) => bytes[*from..][..*len].fill(*with),
            Self::Noise(from, len, seed) => {
                let mut random = seed | 1;
                for byte in &mut bytes[*from..][..*len] {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    *byte = random as u8;
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_hide_no_payment(
        payments in 0u32..60, sectors in 2usize..4, bits in prop::collection::vec(0usize..3 * 4096, 1..6),
    ) {
        let flash = paid(payments, sectors);
        Damage::Flip(bits).apply(&flash);
        loses_nothing(&flash, payments)?;
    }

    #[test]
    fn one_flipped_bit_is_repaired(payments in 0u32..60, sectors in 2usize..4, bit in 0usize..3 * 4096) {
        let flash = paid(payments, sectors);
        Damage::Flip(vec![bit % (sectors * SECTOR * 8)]).apply(&flash);
        prop_assert!(loses_nothing(&flash, payments)?);
    }

    #[test]
    fn the_loss_of_any_sector_is_noticed(
        payments in 0u32..60, sectors in 2usize..5, which in 0usize..5, seed: u64, with in prop::option::of(any::<u8>()),
    ) {
        let flash = paid(payments, sectors);
        let from = which % sectors * SECTOR;
        with.map_or(Damage::Noise(from, SECTOR, seed), |with| Damage::Fill(from, SECTOR, with)).apply(&flash);
        loses_nothing(&flash, payments)?;
    }

    #[test]
    fn an_overwritten_stretch_hides_no_payment(
        payments in 0u32..60, sectors in 2usize..4, at in 0usize..4096, len in 1usize..200, seed: u64, zeros: bool,
    ) {
        let flash = paid(payments, sectors);
        let from = at % (sectors * SECTOR - len);
        if zeros { Damage::Fill(from, len, 0) } else { Damage::Noise(from, len, seed) }.apply(&flash);
        loses_nothing(&flash, payments)?;
    }

    // For any damage, a recovered journal has at least the original charge, and continues from there.
    #[test]
    fn recovery_only_over_counts(
        payments in 0u32..60, sectors in 2usize..5, reserve in 1u32..9, damage in damage(), restarts in 1usize..3,
        cut in prop::option::of(0u64..80),
    ) {
        let flash = charged(payments, sectors, reserve);
        damage.iter().for_each(|damage| damage.within(sectors * SECTOR).apply(&flash));
        let most = Allowance { steps: reserve, divergence: 0.0 };
        let opens = Journal::open(flash.clone(), run()).map(|journal| journal.record());
        if cut.is_some() {
            flash.power_on(cut);
            let _ = Journal::recover(flash.clone(), run(), most);
            flash.power_on(None);
        }
        for _ in 0..restarts {
            let recovered = match Journal::recover(flash.clone(), run(), most) {
                Ok(recovered) => recovered.record().paid,
                // Everything was erased, by the damage or by the recovery of a journal without a charge.
                Err(JournalError::Blank) => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
            };
            prop_assert!(recovered >= payments * reserve, "{recovered} of {}", payments * reserve);
            prop_assert!(recovered <= 1000);
            match opens {
                Ok(record) => prop_assert_eq!(recovered, record.paid),
                // The over-count happens once, not at each restart.
                Err(_) => prop_assert_eq!(
                    Journal::open(flash.copied(), run()).map(|journal| journal.record().paid), Ok(recovered)
                ),
            }
        }
        let mut journal = Journal::recover(flash.clone(), run(), most).unwrap();
        let paid = journal.record().paid;
        for more in (paid + 1..=1000).take(30) {
            prop_assert_eq!(journal.persist(record(more)), Ok(()));
            prop_assert_eq!(Journal::open(flash.copied(), run()).map(|journal| journal.record().paid), Ok(more));
        }
    }

    #[test]
    fn other_content_is_never_a_journal(seed: u64, with in prop::option::of(any::<u8>()), sectors in 2usize..4) {
        let flash = Chip::erased(sectors, 1);
        let all = sectors * SECTOR;
        with.map_or(Damage::Noise(0, all, seed), |with| Damage::Fill(0, all, with)).apply(&flash);
        let error = Journal::open(flash.clone(), run()).unwrap_err();
        let blank = with == Some(0xff);
        prop_assert_eq!(error, if blank { JournalError::Blank } else { JournalError::Corrupted });
        let provisioned = Journal::provision(flash, run(), FirstBoot::confirmed_by_owner());
        prop_assert_eq!(provisioned.err(), if blank { None } else { Some(JournalError::Occupied) });
    }

    // A damaged snapshot falls back to the previous snapshot, or to none.
    #[test]
    fn damaged_snapshot_falls_back(
        saves in 1u32..6, bits in prop::collection::vec(0usize..4 * 4096, 1..40),
    ) {
        let flash = Chip::erased(4, 1);
        let mut snapshots = Snapshots::open(flash.clone(), run(), 0).unwrap();
        let words = |save: u32| Words((0..50).map(|i| save * 1000 + i).collect());
        (1..=saves).for_each(|save| snapshots.save(save, &mut words(save)).unwrap());
        Damage::Flip(bits).apply(&flash);
        let mut snapshots = match Snapshots::open(flash, run(), saves) {
            Ok(snapshots) => snapshots,
            Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
        };
        if let Some(newest) = snapshots.newest() {
            prop_assert!(newest == saves || newest + 1 == saves);
            let mut loaded = Words(vec![0; 50]);
            prop_assert_eq!(snapshots.load(&mut loaded), Ok(()));
            prop_assert_eq!(loaded, words(newest));
        }
        prop_assert_eq!(snapshots.save(saves + 1, &mut words(7)), Ok(()));
        prop_assert_eq!(snapshots.newest(), Some(saves + 1));
    }
}

// A journal of another configuration is an error.
#[test]
fn other_configuration_is_error() {
    let flash = paid(9, 2);
    for other in [run().with(b"x"), Configuration::of_ledger(1001, &step(), 3), filter()] {
        assert_eq!(Journal::open(flash.clone(), other).unwrap_err(), JournalError::OtherConfiguration);
        assert_eq!(
            Journal::provision(flash.clone(), other, FirstBoot::confirmed_by_owner()).unwrap_err(),
            JournalError::Occupied
        );
    }
    let mut journal = Journal::open(flash, run()).unwrap();
    let quiet = DpSgd::new().clip(1.0).noise_multiplier(0.2).learning_rate(0.1).expected_batch(60).build().unwrap();
    for other in [
        Record { budget: 1001, ..record(10) },
        Record { order: 8, ..record(10) },
        Record { fingerprint: quiet.fingerprint(3), ..record(10) },
        Record { fingerprint: 0, ..record(10) },
    ] {
        assert_eq!(journal.persist(other), Err(JournalError::OtherConfiguration));
    }
    assert_eq!(journal.record(), record(9));
}

// A ledger that lost charges is an error.
#[test]
fn ledger_without_its_charges_is_error() {
    let mut journal = Journal::open(paid(9, 2), run()).unwrap();
    for paid in [0, 1, 9] {
        assert_eq!(journal.persist(record(paid)), Err(JournalError::Backwards));
    }
    let mut journal = Journal::provision(Chip::erased(2, 1), filter(), FirstBoot::confirmed_by_owner()).unwrap();
    let spent = |paid, divergence| Record { budget: 0, paid, divergence, order: 8, fingerprint: step().fingerprint(3) };
    assert_eq!(journal.persist(spent(1, 0.5)), Ok(()));
    for divergence in [0.25, f64::NAN, -1.0] {
        assert_eq!(journal.persist(spent(2, divergence)), Err(JournalError::Backwards));
    }
    assert_eq!(journal.record(), spent(1, 0.5));
}

// A region that is not a number of whole sectors is an error.
#[test]
fn partial_sector_region_is_error() {
    assert_eq!(
        Journal::provision(Chip::erased(1, 1), run(), FirstBoot::confirmed_by_owner()).unwrap_err(),
        JournalError::Geometry
    );
    assert_eq!(Snapshots::open(Chip::erased(3, 1), run(), 0).unwrap_err(), SnapshotError::Geometry);
}

// A snapshot newer than the ledger shows that the ledger was rolled back.
#[test]
fn newer_snapshot_reveals_ledger_rollback() {
    let flash = Chip::erased(4, 1);
    let mut snapshots = Snapshots::open(flash.clone(), run(), 5).unwrap();
    snapshots.save(5, &mut first_numbers(10)).unwrap();
    assert_eq!(snapshots.save(5, &mut first_numbers(10)), Err(SnapshotError::Backwards));
    let mut other = Words(vec![7; 9]);
    assert_eq!(snapshots.load(&mut other), Err(SnapshotError::Length));
    assert_eq!(other, Words(vec![7; 9]));
    // The same number of words, of another kind.
    let mut floats = [7.0f32; 10];
    assert_eq!(snapshots.load(&mut floats), Err(SnapshotError::Length));
    assert_eq!(floats, [7.0; 10]);
    assert_eq!(Snapshots::open(flash.clone(), run(), 4).unwrap_err(), SnapshotError::LedgerBehind);
    assert_eq!(Snapshots::open(flash.clone(), run().with(b"x"), 5).unwrap_err(), SnapshotError::OtherConfiguration);
    assert_eq!(Snapshots::open(flash, run(), 5).unwrap().newest(), Some(5));
}

// A snapshot that does not fit leaves the previous snapshot.
#[test]
fn oversized_snapshot_keeps_previous() {
    let mut snapshots = Snapshots::open(Chip::erased(2, 1), run(), 9).unwrap();
    // A half of 512 bytes minus its head has 112 words.
    snapshots.save(1, &mut first_numbers(112)).unwrap();
    assert_eq!(snapshots.save(2, &mut first_numbers(113)), Err(SnapshotError::TooLong));
    assert_eq!(snapshots.newest(), Some(1));
    let mut words = Words(vec![0; 112]);
    snapshots.load(&mut words).unwrap();
    assert_eq!(words, first_numbers(112));
}

// An older image of the whole region is not detected. Only a monotonic counter could detect it.
#[test]
fn full_rollback_is_not_detected() {
    let flash = paid(20, 2);
    let image = flash.chip.borrow().bytes.clone();
    let mut journal = Journal::open(flash.clone(), run()).unwrap();
    (21..=30).for_each(|paid| journal.persist(record(paid)).unwrap());
    flash.corrupt(|bytes| bytes.copy_from_slice(&image));
    assert_eq!(Journal::open(flash, run()).unwrap().record().paid, 20);
}

#[test]
fn a_budget_above_2_31_is_refused() {
    let large = |budget| Configuration::of_ledger(budget, &step(), 3);
    let provision = |budget| Journal::provision(Chip::erased(2, 1), large(budget), FirstBoot::confirmed_by_owner());
    assert_eq!(provision((1 << 31) + 1).unwrap_err(), JournalError::Budget);
    assert_eq!(Journal::open(Chip::erased(2, 1), large(u32::MAX)).unwrap_err(), JournalError::Budget);
    assert!(provision(1 << 31).is_ok());
}

/// A block of seven words and their CRC-32, as an earlier version wrote it.
fn block(words: [u32; 7]) -> [u8; 32] {
    let bytes = words.map(u32::to_le_bytes);
    let check = !bytes.as_flattened().iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    let mut block = [0; 32];
    block[..28].copy_from_slice(bytes.as_flattened());
    block[28..].copy_from_slice(&check.to_le_bytes());
    block
}

// A journal and a snapshot of the first format give an error that names the version, and remain unchanged.
#[test]
fn an_earlier_version_is_refused_by_name() {
    let flash = Chip::erased(4, 1);
    flash.corrupt(|bytes| {
        for copy in 0..3 {
            bytes[32 * copy..][..32].copy_from_slice(&block([u32::from_le_bytes(*b"DJL1"), 0, 1, 2, 0, 0, 17]));
        }
    });
    let before = flash.chip.borrow().bytes.clone();
    assert_eq!(Journal::open(flash.clone(), run()).unwrap_err(), JournalError::OtherConfiguration);
    let most = Allowance { steps: 1, divergence: 0.0 };
    assert_eq!(Journal::recover(flash.clone(), run(), most).unwrap_err(), JournalError::OtherConfiguration);
    let provisioned = Journal::provision(flash.clone(), run(), FirstBoot::confirmed_by_owner());
    assert_eq!(provisioned.unwrap_err(), JournalError::Occupied);
    assert_eq!(flash.chip.borrow().bytes, before);

    let flash = Chip::erased(2, 1);
    flash.corrupt(|bytes| bytes[..32].copy_from_slice(&block([u32::from_le_bytes(*b"DJS1"), 3, 1, 2, 0, 0, 0])));
    assert_eq!(Snapshots::open(flash, run(), 9).unwrap_err(), SnapshotError::OtherConfiguration);
}
