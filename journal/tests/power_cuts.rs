//! Cuts a run at every event of its flash, `DAMPER_POWER_ROUNDS` times with different random remains. Cuts occur before
//! each word and in the middle of it, before each erase and in the middle of it, and again during the recovery. After
//! every restart the checks of `training` pass.

#[path = "flash/nor.rs"]
mod flash;
#[path = "training/run.rs"]
mod training;

use damper_core::accounting::{Record, Store};
use damper_core::step::StepConfig as _;
use damper_journal::{FirstBoot, Journal, JournalError};
use flash::{Chip, Ecc, Flash};
use training::{Plan, Story, cuts_after, journaled};

const LEDGER: Plan = Plan { ledger: Some((24, 1)), snapshot_every: 3, journal: 2, snapshots: 2 };
const PREPAYING: Plan = Plan { ledger: Some((40, 5)), snapshot_every: 1, journal: 3, snapshots: 2 };
const FILTER: Plan = Plan { ledger: None, snapshot_every: 2, journal: 2, snapshots: 2 };

/// A flash that accepts data for words that a cut touched, one that refuses it, and a flash with error correction.
const KINDS: [fn(&mut Chip); 3] = [takes, refuses, corrects];

fn takes(_: &mut Chip) {}

fn refuses(chip: &mut Chip) {
    chip.refuses_touched = true;
}

fn corrects(chip: &mut Chip) {
    chip.ecc = Ecc::Error;
}

/// Cuts a run at each of its events, and returns the number of events.
fn cut_everywhere<const W: usize, const E: usize>(plan: &Plan, kind: fn(&mut Chip)) -> u64 {
    let whole = plan.flash::<W, E>(1);
    let story = journaled(plan, &whole, |_| None).unwrap();
    let events = whole.events();
    // The remains of a cut are random, and some are rare.
    let rounds = std::env::var("DAMPER_POWER_ROUNDS").map_or(1, |rounds| rounds.parse().expect("a number"));
    for (round, first) in (0..rounds).flat_map(|round| (0..events).map(move |first| (round, first))) {
        let seed = round * events + first + 2;
        let flash = plan.flash::<W, E>(seed);
        kind(&mut flash.chip.borrow_mut());
        let mean = if round % 2 == 0 { events / 6 } else { 20 };
        let cut = journaled(plan, &flash, cuts_after(first, seed, mean));
        let cut = cut.unwrap_or_else(|law| panic!("words of {W}, sectors of {E}, cut at {first}: {law}"));
        holds_together(plan, &story, &cut);
    }
    rounds * events
}

fn holds_together(plan: &Plan, whole: &Story, cut: &Story) {
    match plan.ledger {
        Some((budget, prepay)) => {
            assert_eq!((whole.released.len() as u32, whole.paid, cut.paid), (budget, budget, budget));
            // A restart loses at most one charge's steps.
            assert!(cut.released.len() as u32 + (cut.restarts - 1) * prepay >= budget);
        }
        None => {
            assert!(whole.released.len() > 20, "{} steps", whole.released.len());
            assert!(cut.released.len() + cut.restarts as usize > whole.released.len() - 6);
        }
    }
    assert!(whole.params.iter().all(|x| x.is_finite() && *x != 0.0) && cut.params.iter().all(|x| x.is_finite()));
}

// A ledger passes its checks for a power loss at any event.
#[test]
fn ledger_holds_at_every_power_loss() {
    let mut events = 0;
    for kind in KINDS {
        events += cut_everywhere::<4, 512>(&LEDGER, kind);
        events += cut_everywhere::<8, 512>(&LEDGER, kind);
        events += cut_everywhere::<16, 512>(&LEDGER, kind);
        events += cut_everywhere::<32, 1024>(&LEDGER, kind);
    }
    events += cut_everywhere::<1, 512>(&Plan { ledger: Some((12, 1)), ..LEDGER }, takes);
    println!("cut at {events} events");
}

// A ledger with a reserve passes its checks for a power loss at any event.
#[test]
fn reserving_ledger_holds_at_power_loss() {
    let events = cut_everywhere::<4, 512>(&PREPAYING, takes) + cut_everywhere::<8, 512>(&PREPAYING, refuses);
    println!("cut at {events} events");
}

// A Rényi filter passes its checks for a power loss at any event.
#[test]
fn renyi_filter_holds_at_every_power_loss() {
    let events = cut_everywhere::<4, 512>(&FILTER, takes) + cut_everywhere::<8, 512>(&FILTER, refuses);
    println!("cut at {events} events");
}

// Power may fail again at every event of a recovery.
#[test]
fn recovery_survives_second_power_loss() {
    let plan = Plan { ledger: Some((9, 1)), snapshot_every: 4, ..LEDGER };
    let whole = plan.flash::<8, 512>(1);
    journaled(&plan, &whole, |_| None).unwrap();
    let mut pairs = 0;
    for first in 0..whole.events() {
        for second in 0..40 {
            let flash = plan.flash::<8, 512>(first * 64 + second + 2);
            flash.chip.borrow_mut().refuses_touched = first % 2 == 0;
            let cuts =
                |restarts| [Some(first), Some(second), Some(second / 2)].get(restarts as usize).copied().flatten();
            let story = journaled(&plan, &flash, cuts);
            let story = story.unwrap_or_else(|law| panic!("cut at {first}, then at {second}: {law}"));
            assert_eq!(story.paid, 9);
            pairs += 1;
        }
    }
    println!("{pairs} pairs of cuts");
}

// A power loss while provisioning leaves a fresh journal or an error.
#[test]
fn interrupted_provision_is_fresh_or_error() {
    for first in 0..80 {
        let flash = Flash::<4, 512>::erased(2, first + 1);
        flash.power_on(Some(first));
        let provisioned = Journal::provision(flash.clone(), LEDGER.run(), FirstBoot::confirmed_by_owner()).is_ok();
        let cut = flash.is_dead();
        flash.power_on(None);
        assert!(provisioned != cut);
        for _ in 0..4 {
            match Journal::open(flash.clone(), LEDGER.run()) {
                Ok(journal) => assert_eq!(journal.record().paid, 0),
                Err(error) => {
                    assert!(cut && matches!(error, JournalError::Blank | JournalError::Corrupted), "{error:?}");
                }
            }
        }
    }
}

// A long run wears the sectors evenly, and as little as documented.
#[test]
fn long_run_wears_sectors_evenly() {
    for (prepay, payments) in [(1, 1000), (8, 125)] {
        let plan = Plan { ledger: Some((1000, prepay)), snapshot_every: 1000, journal: 4, snapshots: 2 };
        let flash = plan.flash::<4, 4096>(1);
        let story = journaled(&plan, &flash, |_| None).unwrap();
        assert_eq!(story.released.len(), 1000);
        let chip = flash.chip.borrow();
        // 40 charges per sector.
        let turns = (payments - 1) / 40;
        assert_eq!(chip.erases[..4].iter().sum::<u32>(), turns);
        let (least, most) = (chip.erases[..4].iter().min().unwrap(), chip.erases[..4].iter().max().unwrap());
        assert!(most - least <= 1);
        println!("prepay {prepay}: {turns} erases over 4 sectors, {} words", chip.writes);
    }
}

// A long run completes despite many power losses.
#[test]
fn long_run_completes_despite_power_loss() {
    // The shorter sessions are too short for a charge and a snapshot, and only repair.
    for (budget, longest, refuses) in [(1000, 200, false), (1000, 200, true), (150, 30, false), (150, 30, true)] {
        let plan = Plan { ledger: Some((budget, 4)), snapshot_every: 10, journal: 2, snapshots: 2 };
        let flash = plan.flash::<8, 1024>(3);
        flash.chip.borrow_mut().refuses_touched = refuses;
        let mut random = 7u64;
        let story = journaled(&plan, &flash, |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((random >> 33) % longest)
        });
        let story = story.unwrap();
        assert!(story.paid == budget && story.restarts > 20);
        println!("{} released of {budget} over {} restarts", story.released.len(), story.restarts);
    }
}

// A worn sector is skipped, and a worn region releases nothing.
#[test]
fn worn_sector_is_skipped() {
    let plan = Plan { ledger: Some((60, 1)), snapshot_every: 1000, journal: 4, snapshots: 2 };
    for worn in [vec![1], vec![2, 3]] {
        let flash = plan.flash::<4, 512>(1);
        flash.chip.borrow_mut().worn = worn.clone();
        let whole = journaled(&plan, &flash, |_| None).unwrap();
        assert_eq!(whole.released.len(), 60, "{worn:?}");
        for first in (0..flash.events()).step_by(7) {
            let flash = plan.flash::<4, 512>(first + 1);
            flash.chip.borrow_mut().worn = worn.clone();
            journaled(&plan, &flash, cuts_after(first, first, 200)).unwrap();
        }
    }
    let flash = plan.flash::<4, 512>(1);
    flash.chip.borrow_mut().worn = vec![1, 2, 3];
    let broken = journaled(&plan, &flash, |_| None).unwrap_err();
    assert!(broken.contains("a step did not open: Store(Worn)"), "{broken}");
}

// A slot that does not take data is skipped.
#[test]
fn stuck_slot_is_skipped() {
    let plan = Plan { ledger: Some((30, 1)), snapshot_every: 1000, journal: 2, snapshots: 2 };
    let stuck = |flash: &Flash<4, 512>, seed: u64| {
        for sector in 0..2 {
            // All copies of a slot, after the head of the checked words.
            let slot = sector * 512 + 96 * (1 + (seed as usize + sector) % 3);
            flash.chip.borrow_mut().stuck.extend([(slot + 28, 0xff), (slot + 60, 0xff), (slot + 92, 0xff)]);
        }
    };
    for seed in 0..6 {
        let whole = plan.flash(seed + 1);
        stuck(&whole, seed);
        assert_eq!(journaled(&plan, &whole, |_| None).unwrap().released.len(), 30);
        for first in (seed..whole.events()).step_by(6) {
            let flash = plan.flash(first + 1);
            stuck(&flash, seed);
            journaled(&plan, &flash, cuts_after(first, first, 200))
                .unwrap_or_else(|law| panic!("{seed}, cut at {first}: {law}"));
        }
    }
}

// The loss of a sector is detected, after a power loss at any event.
#[test]
fn lost_sector_is_detected() {
    let fingerprint = training::step().fingerprint(training::D);
    let record = |paid| Record { budget: 24, paid, divergence: 0.0, order: 0, fingerprint };
    for first in 0..400 {
        let flash = Flash::<8, 512>::erased(3, first + 1);
        let mut journal = Journal::provision(flash.clone(), LEDGER.run(), FirstBoot::confirmed_by_owner()).unwrap();
        flash.power_on(Some(first));
        let mut paid = (1..9).take_while(|paid| journal.persist(record(*paid)).is_ok()).count() as u32;
        for _ in 0..2 {
            flash.power_on(None);
            let mut journal = Journal::open(flash.clone(), LEDGER.run()).unwrap();
            paid = journal.record().paid.max(paid) + 1;
            // The mark in the previous sector may be the only trace of the current sector.
            for lost in 0..3 {
                let flash = flash.copied();
                flash.corrupt(|bytes| bytes[512 * lost..][..512].fill(0xff));
                if let Ok(journal) = Journal::open(flash, LEDGER.run()) {
                    assert_eq!(journal.record().paid + 1, paid, "cut at {first}, lost {lost}");
                }
            }
            journal.persist(record(paid)).unwrap();
        }
    }
}
