//! A journal takes the charges of one step. If a program changes any accounted setting under the same budget and
//! description, every path to a release gives an error.

#[path = "flash/nor.rs"]
mod flash;

use damper_core::accounting::Receipt;
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::filter::{Filter, Identity};
use damper_core::grid::Grid;
use damper_core::noise::{
    AnyCorrelation, ContinuousGaussian, CorrelatedGaussian, CorrelatedState, DiscreteGaussian, NoiseWord, Participation,
};
use damper_core::optimizer::{Optimizer, Sgd, SgdState};
use damper_core::prelude::*;
use damper_core::private::{Mechanism, SumWord};
use damper_core::schedule::{Constant, Decay, Declared, LearningRate, NoiseSchedule, Schedule};
use damper_core::slots::{StatefulSlot, ThresholdSlot};
use damper_core::step::StepConfig;
use damper_core::threshold::{Fixed, Quantile, QuantileState, Threshold};
use damper_journal::{Configuration, FirstBoot, Journal, JournalError};
use flash::Flash;

type Chip = Flash<4, 512>;
const BUDGET: u32 = 1000;
const DIM: usize = 3;

fn run(step: &impl StepConfig, dim: usize) -> Configuration {
    Configuration::of_ledger(BUDGET, step, dim).with(b"one text")
}

/// A journal with charges of one step, 8 steps at a time.
struct Charged {
    chip: Chip,
    run: Configuration,
    fingerprint: u64,
    ledger: Ledger<Journal<Chip>>,
    /// A receipt for a step of this configuration.
    receipt: Receipt,
}

fn charged<F, O, M, T, C, S, B, FS, OS>(
    step: &PrivateStep<F, O, M, T, C, S>,
    state: &mut StepState<B, FS, OS, T::State, M::NoiseState>,
) -> Charged
where
    F: Filter<FS>,
    O: Optimizer<OS>,
    M: Mechanism,
    T: Threshold,
    C: Clip,
    S: Schedule,
    B: AsMut<[M::Word]>,
{
    let (chip, run) = (Chip::erased(2, 1), run(step, DIM));
    let journal = Journal::provision(chip.clone(), run, FirstBoot::confirmed_by_owner()).unwrap();
    let mut ledger = Ledger::open(journal, BUDGET).unwrap().with_reserve(8);
    assert_eq!(step.open(state, &mut ledger).unwrap().number(), 0);
    let receipt = step.prepare(state, &mut Ledger::resume((), BUDGET, 1)).unwrap().persisted();
    Charged { chip, run, fingerprint: step.fingerprint(DIM), ledger, receipt }
}

/// Fails if `other` opens a step on the charge of another configuration, or writes a word to its flash.
fn refused<F, O, M, T, C, S, B, FS, OS>(
    what: &str,
    charged: Charged,
    other: &PrivateStep<F, O, M, T, C, S>,
    state: &mut StepState<B, FS, OS, T::State, M::NoiseState>,
    dim: usize,
) where
    F: Filter<FS>,
    O: Optimizer<OS>,
    M: Mechanism,
    T: Threshold,
    C: Clip,
    S: Schedule,
    B: AsMut<[M::Word]>,
{
    let Charged { chip, run: charged_for, fingerprint, mut ledger, receipt } = charged;
    let before = chip.chip.borrow().bytes.clone();
    let foreign = Some(OpenError::Store(JournalError::OtherConfiguration));
    let open = || Journal::open(chip.clone(), charged_for).unwrap();

    let opened = Journal::open(chip.clone(), run(other, dim)).unwrap_err();
    assert_eq!(opened, JournalError::OtherConfiguration, "{what}: the journal of another step opens");
    // In a step that the record already covers.
    let error = other.open(state, &mut ledger).err();
    assert!(matches!(error, Some(OpenError::Call(_))), "{what}: reserved: {error:?}");
    // A ledger bound to another owner, or to none, drops its reserve.
    for owner in [0, other.fingerprint(dim)] {
        ledger = ledger.bound_to(owner);
        assert_eq!(other.open(state, &mut ledger).err(), foreign, "{what}: bound to {owner}");
        ledger = ledger.bound_to(fingerprint);
    }
    let mut resumed = Ledger::resume(open(), BUDGET, 1);
    assert_eq!(other.open(state, &mut resumed).err(), foreign, "{what}: resumed");
    // The caller persists the record.
    let mut unread = Ledger::resume((), BUDGET, 8);
    let due = other.prepare(state, &mut unread).unwrap();
    let persisted = open().persist(due.record().unwrap());
    assert_eq!(persisted, Err(JournalError::OtherConfiguration), "{what}: prepared");
    drop(due);
    assert!(other.open_charged(state, receipt).is_err(), "{what}: the receipt of another step");
    assert_eq!(chip.chip.borrow().bytes, before, "{what}");
}

fn dp_sgd() -> DpSgd {
    let step = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60);
    step.poisson_batches(Rate::of(60, 600).unwrap(), 600)
}

fn step<M: Mechanism, T: Threshold, C: Clip, S: Schedule>(
    mechanism: M,
    threshold: T,
    clip: C,
    schedule: S,
) -> PrivateStep<Identity, Sgd, M, T, C, S> {
    let optimizer = Sgd::new(0.0, false, 0.0).unwrap();
    PrivateStep::new(Slots { filter: Identity, optimizer, mechanism, threshold, clip, schedule, expected_batch: 60 })
        .unwrap()
}

fn gaussian() -> DiscreteGaussian<i32> {
    DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), 1.1).unwrap()
}

type State<M, T = ()> = StepState<Vec<M>, (), SgdState<[f32; 0]>, T>;

fn state<M: Copy + Default, T>(threshold: T) -> State<M, T> {
    StepState::new(vec![M::default(); DIM], (), SgdState { momentum: [] }, threshold)
}

#[test]
fn one_journal_is_of_one_number_each() {
    let base = || charged(&dp_sgd().build().unwrap(), &mut dp_sgd().build().unwrap().state::<DIM>());
    let rate = |batch| Rate::of(batch, 600).unwrap();
    for (what, other) in [
        ("another multiplier", dp_sgd().noise_multiplier(0.2)),
        ("another clip", dp_sgd().clip(2.0)),
        ("another grid", dp_sgd().grid_bits(15)),
        ("another expected batch", dp_sgd().expected_batch(61)),
        ("another rate", dp_sgd().poisson_batches(rate(120), 600)),
        ("another number of samples", dp_sgd().poisson_batches(rate(60), 601)),
    ] {
        let other = other.build().unwrap();
        refused(what, base(), &other, &mut other.state::<DIM>(), DIM);
    }
    let same = dp_sgd().build().unwrap();
    refused("another number of parameters", base(), &same, &mut same.state::<4>(), 4);
    // The right step continues from its position.
    let Charged { mut ledger, .. } = base();
    assert_eq!(same.open(&mut same.state::<DIM>(), &mut ledger).unwrap().number(), 1);
}

#[test]
fn one_journal_is_of_one_method() {
    let plain = || step(gaussian(), Fixed(1.0), FlatL2, Constant(0.1));
    let base = || charged(&plain(), &mut state::<SumWord<i32>, _>(()));
    let other = step(gaussian(), Fixed(1.0), Automatic::new(0.01).unwrap(), Constant(0.1));
    refused("automatic clipping", base(), &other, &mut state(()), DIM);
    let layers = [Layer { len: 1, share: 1 << 20 }, Layer { len: 2, share: 1 << 21 }];
    let layers = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
    refused("clipping per layer", base(), &step(gaussian(), Fixed(1.0), layers, Constant(0.1)), &mut state(()), DIM);
    let quantile = step(gaussian(), Quantile::recommended(60).unwrap(), FlatL2, Constant(0.1));
    refused("an adaptive clip", base(), &quantile, &mut state(QuantileState::new(1.0).unwrap()), DIM);
    let rates = LearningRate::new(0.1, 0, Decay::Constant).unwrap();
    let noise = NoiseSchedule::Polynomial { growth: 0.1, exponent: 1.0 };
    let declared = Declared { learning_rate: rates, noise };
    refused("a noise schedule", base(), &step(gaussian(), Fixed(1.0), FlatL2, declared), &mut state(()), DIM);
    let floats = step(ContinuousGaussian::new(1.1).unwrap(), Fixed(1.0), FlatL2, Constant(0.1));
    refused("floating-point noise", base(), &floats, &mut state(()), DIM);
    refused("correlated noise", base(), &correlated(order(600), 0.1, 100_000), &mut correlated_state(), DIM);
    // And in the other direction.
    let first = correlated(order(600), 0.1, 100_000);
    refused("independent noise", charged(&first, &mut correlated_state()), &plain(), &mut state(()), DIM);
}

type Correlated = CorrelatedGaussian<i32, AnyCorrelation, Vec<NoiseWord>>;

fn participation(steps: u32, separation: u32, times: u32) -> Participation {
    Participation::new(steps, separation, times).unwrap()
}

fn order(samples: u32) -> Participation {
    participation(BUDGET, 100, 10).of_samples(samples).unwrap()
}

fn correlated(run: Participation, omega: f64, sigma: u32) -> PrivateStep<Identity, Sgd, Correlated> {
    let blt = AnyCorrelation::blt(&[0.9, 0.5], &[0.2, omega]).unwrap();
    let mechanism = CorrelatedGaussian::new(Grid::new(16).unwrap(), sigma, blt, run, DIM as u32).unwrap();
    step(mechanism, Fixed(1.0), FlatL2, Constant(0.1))
}

type Noise = CorrelatedState<AnyCorrelation, Vec<NoiseWord>>;

fn correlated_state() -> StepState<Vec<SumWord<i32>>, (), SgdState<[f32; 0]>, (), Noise> {
    let noise = CorrelatedState::new((0..2 * DIM).map(|_| NoiseWord::ZERO).collect());
    state(()).with_noise(noise)
}

#[test]
fn one_journal_is_of_one_fixed_order() {
    let of = |run| correlated(run, 0.1, 100_000);
    for (what, other) in [
        ("another N", of(order(401))),
        ("no N", of(participation(BUDGET, 100, 10))),
        ("another separation", of(participation(BUDGET, 99, 10).of_samples(400).unwrap())),
        ("fewer participations", of(participation(BUDGET, 100, 9).of_samples(400).unwrap())),
        ("more steps", of(participation(BUDGET + 1, 100, 10).of_samples(400).unwrap())),
        ("another correlation", correlated(order(400), 0.11, 100_000)),
        ("another sigma", correlated(order(400), 0.1, 99_999)),
    ] {
        refused(what, charged(&of(order(400)), &mut correlated_state()), &other, &mut correlated_state(), DIM);
    }
}

/// Each step gets another N. The second step and all later steps fail, except those with the first N.
#[test]
fn a_run_keeps_its_number_of_samples() {
    let first = correlated(order(400), 0.1, 100_000);
    let mut ledger = charged(&first, &mut correlated_state()).ledger;
    let opened: Vec<bool> = (0..20)
        .map(|number| {
            let step = correlated(order(400 + number % 4 * 100), 0.1, 100_000);
            let mut state = correlated_state();
            let open = step.open(&mut state, &mut ledger);
            open.is_ok_and(|open| open.fixed_order_batch().unwrap().len() == 4)
        })
        .collect();
    assert!(opened.iter().enumerate().all(|(number, opened)| *opened == (number % 4 == 0)), "{opened:?}");
    assert_eq!(ledger.charged_steps(), 6);
}

/// After a restart an adaptive clip begins at its last value, also in a slot for any threshold. A fixed clip is bound
/// to the journal.
#[test]
fn an_adaptive_clip_may_begin_anywhere() {
    let quantile = |clip| {
        let slot = StatefulSlot::threshold(Quantile::recommended(60).unwrap(), QuantileState::new(clip).unwrap());
        step(gaussian(), ThresholdSlot::<20>::of(&slot), FlatL2, Constant(0.1)).fingerprint(DIM)
    };
    let fixed = |clip| {
        let slot = StatefulSlot::threshold(Fixed(clip), ());
        step(gaussian(), ThresholdSlot::<20>::of(&slot), FlatL2, Constant(0.1)).fingerprint(DIM)
    };
    assert_eq!(quantile(1.0), quantile(2.0));
    assert_eq!(
        quantile(1.0),
        step(gaussian(), Quantile::recommended(60).unwrap(), FlatL2, Constant(0.1)).fingerprint(DIM)
    );
    assert_ne!(fixed(1.0), fixed(2.0));
    assert_eq!(fixed(1.0), step(gaussian(), Fixed(1.0), FlatL2, Constant(0.1)).fingerprint(DIM));
}

/// Settings without a privacy cost are not bound. A device may change its learning rate and its optimizer and continue.
#[test]
fn what_has_no_price_may_change() {
    let first = step(gaussian(), Fixed(1.0), FlatL2, Constant(0.1));
    let charged = charged(&first, &mut state::<SumWord<i32>, _>(()));
    let other = PrivateStep::new(Slots {
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        schedule: Constant(0.2),
        ..*first.slots()
    })
    .unwrap();
    let mut ledger = charged.ledger;
    let mut state = StepState::new(vec![SumWord::default(); DIM], (), SgdState { momentum: [0.0; DIM] }, ());
    assert_eq!(other.open(&mut state, &mut ledger).unwrap().number(), 1);
    assert!(Journal::open(charged.chip, run(&other, DIM)).is_ok());
}
