//! A private run on a device that loses power: core's step with exact noise, a store for the ledger, and snapshots of
//! parameters and momentum. Every restart must pass the checks here.
#![allow(dead_code)] // Each test binary uses a part.

use crate::flash::{Failed, Flash};
use damper_core::accounting::{Ledger, Rate, ReadStore, RenyiFilter, SampledGaussian};
use damper_core::clip::FlatL2;
use damper_core::error::{CallError, OpenError};
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::numerics::up::add_up;
use damper_core::optimizer::{Begin, Optimizer, Sgd, SgdState};
use damper_core::private::{Released, SumWord};
use damper_core::schedule::Constant;
use damper_core::state::{SaveState, StateField};
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_journal::{Configuration, FirstBoot, Journal, JournalError, SnapshotError, Snapshots};
use std::collections::HashSet;

pub const D: usize = 4;
pub const ORDER: u32 = 8;
pub const EPSILON: f64 = 12.0;
pub const DELTA: f64 = 1e-5;
/// Noise factors of a filter's steps, relative to the mechanism, in turn.
pub const FACTORS: [f64; 3] = [3.0, 4.0, 6.0];
const FIRST_OF_FILTER: u32 = 1 << 31;

/// The store of a device's ledger: the journal, or a store with a deliberate fault.
pub trait Keeper<F>: ReadStore + Sized {
    fn open(flash: F, run: Configuration) -> Result<Self, Self::Error>;
}

impl<const W: usize, const E: usize> Keeper<Flash<W, E>> for Journal<Flash<W, E>> {
    fn open(flash: Flash<W, E>, run: Configuration) -> Result<Self, JournalError<Failed>> {
        Journal::open(flash, run)
    }
}

/// Settings of a run.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Budget of a ledger, and the steps that it reserves at a time. None for a Rényi filter.
    pub ledger: Option<(u32, u32)>,
    /// Releases between snapshots.
    pub snapshot_every: usize,
    /// Sectors of the journal. The snapshots' sectors follow.
    pub journal: usize,
    pub snapshots: usize,
}

impl Plan {
    pub fn run(&self) -> Configuration {
        let run = match self.ledger {
            Some((budget, _)) => Configuration::of_ledger(budget, &step(), D),
            None => Configuration::of_filter(ORDER, EPSILON, DELTA, &step(), D),
        };
        run.with(b"laws of power cuts")
    }

    pub fn flash<const W: usize, const E: usize>(&self, seed: u64) -> Flash<W, E> {
        Flash::erased(self.journal + self.snapshots, seed)
    }
}

/// Result of a run.
#[derive(Default, Debug)]
pub struct Story {
    /// Numbers of the released steps.
    pub released: Vec<u32>,
    pub restarts: u32,
    /// Charged steps at the end.
    pub paid: u32,
    /// The accounted divergence of all releases.
    pub divergence: f64,
    pub params: [f32; D],
}

/// SGD that records its released input. For an empty batch this is the noise alone.
#[derive(Clone)]
pub struct Watched(Sgd);

pub struct WatchedState {
    sgd: SgdState<[f32; D]>,
    noise: Vec<u32>,
}

impl SaveState for WatchedState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.sgd.each(take);
    }
}

impl Optimizer<WatchedState> for Watched {
    type Step = <Sgd as Optimizer<SgdState<[f32; D]>>>::Step;

    fn check(&self, state: &WatchedState, dim: usize) -> Result<(), CallError> {
        self.0.check(&state.sgd, dim)
    }

    fn begin(&self, state: &mut WatchedState, begin: Begin) -> Self::Step {
        self.0.begin(&mut state.sgd, begin)
    }

    fn update(
        &self,
        step: Self::Step,
        state: &mut WatchedState,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.noise.extend(released.grad().iter().map(|grad| grad.to_bits()));
        self.0.update(step, &mut state.sgd, at, params, filtered, released);
    }
}

/// The charged step.
pub fn step() -> PrivateStep<Identity, Watched> {
    PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Watched(Sgd::new(0.9, false, 0.0).unwrap()),
        schedule: Constant(0.1),
        expected_batch: 4,
    })
    .unwrap()
}

fn law(holds: bool, broken: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(broken()) }
}

enum Budget<K> {
    Steps(Ledger<K>),
    Divergence(RenyiFilter, K),
}

impl<K: ReadStore> Budget<K> {
    /// The charged steps in the store.
    fn charged(&self) -> u32 {
        match self {
            Self::Steps(ledger) => ledger.store().record().paid,
            Self::Divergence(_, store) => store.record().paid,
        }
    }
}

/// The words of parameters and momentum.
fn words_of(params: &[f32; D], sgd: &SgdState<[f32; D]>) -> [u32; 2 * D] {
    let mut words = [0; 2 * D];
    for (word, x) in words.iter_mut().zip(params.iter().chain(&sgd.momentum)) {
        *word = x.to_bits();
    }
    words
}

/// Trains to the end of the budget over any number of power cuts. `cuts` returns the number of events after which each
/// session loses power. The error names the failed check.
pub fn train<K: Keeper<Flash<W, E>>, const W: usize, const E: usize>(
    plan: &Plan,
    flash: &Flash<W, E>,
    mut cuts: impl FnMut(u32) -> Option<u64>,
) -> Result<Story, String>
where
    K::Error: std::fmt::Debug,
{
    let step = step();
    let run = plan.run();
    let journal = flash.part(0, plan.journal);
    let pictures = flash.part(plan.journal, plan.journal + plan.snapshots);
    let mut story = Story::default();
    let (mut opened, mut noise) = (HashSet::new(), HashSet::new());
    // The largest reported charge, from a restart or from a successful charge.
    let (mut reported, mut spent) = (0, 0.0);
    // Words of the newest saved snapshot, and of later attempts that may have been saved as the power failed.
    let (mut kept, mut tried) = ([0u32; 2 * D], Vec::new());
    loop {
        flash.power_on(cuts(story.restarts));
        story.restarts += 1;
        law(story.restarts < 2000, || "training does not go on".into())?;
        let store = match K::open(journal.clone(), run) {
            _ if flash.is_dead() => continue,
            Ok(store) => store,
            Err(error) => return Err(format!("the ledger does not open: {error:?}")),
        };
        let record = store.record();
        law(record.paid >= reported, || format!("paid fell from {reported} to {}", record.paid))?;
        law(record.divergence >= spent, || format!("spent fell from {spent} to {}", record.divergence))?;
        law(record.divergence >= story.divergence, || "less spent than was released".into())?;
        (reported, spent) = (record.paid, record.divergence);
        let mut snapshots = match Snapshots::open(pictures.clone(), run, record.paid) {
            _ if flash.is_dead() => continue,
            Ok(snapshots) => snapshots,
            Err(error) => return Err(format!("the snapshots do not open: {error:?}")),
        };
        let (mut params, sgd) = ([0f32; D], SgdState { momentum: [0f32; D] });
        let mut state = StepState::new([SumWord::ZERO; D], (), WatchedState { sgd, noise: Vec::new() }, ());
        match snapshots.load(&mut (&mut params, &mut state)) {
            Err(SnapshotError::Length) => law(kept == [0; 2 * D], || "a snapshot was lost".into())?,
            result => {
                law(result == Ok(()), || format!("a snapshot does not load: {result:?}"))?;
                let words = words_of(&params, &state.optimizer.sgd);
                law(words == kept || tried.contains(&words), || "a snapshot is another".into())?;
            }
        }
        let generator: ChaCha20 = ChaCha20::simulation(9);
        let mut budget = match plan.ledger {
            Some((budget, reserve)) => Budget::Steps(Ledger::open(store, budget).unwrap().with_reserve(reserve)),
            None => {
                let filter = RenyiFilter::resume(ORDER, EPSILON, DELTA, record.paid, record.divergence);
                Budget::Divergence(filter.unwrap(), store)
            }
        };
        let mut first = true;
        loop {
            let (number, paid_before, event) = {
                let (result, event) = match &mut budget {
                    Budget::Steps(ledger) => (step.open(&mut state, ledger), None),
                    Budget::Divergence(filter, store) => {
                        let factor = FACTORS[filter.charged_steps() as usize % FACTORS.len()];
                        let event = SampledGaussian::new(Rate::ONE, factor).unwrap();
                        (step.open_adaptive(&mut state, factor, Rate::ONE, filter, store), Some(event))
                    }
                };
                let open = match result {
                    Ok(open) => open,
                    Err(OpenError::BudgetSpent) => {
                        law(!flash.is_dead(), || "a step was refused without power".into())?;
                        story.paid = budget.charged();
                        story.params = params;
                        return Ok(story);
                    }
                    Err(error) if matches!(error, OpenError::Store(_)) && flash.is_dead() => break,
                    Err(error) => return Err(format!("a step did not open: {error:?}")),
                };
                let number = open.number();
                let paid_before = number - if event.is_some() { FIRST_OF_FILTER } else { 0 };
                law(!first || paid_before == record.paid, || "the first step is not the next that was paid".into())?;
                law(opened.insert(number), || format!("step {number} opened twice"))?;
                law(!flash.is_dead(), || format!("step {number} opened without power"))?;
                first = false;
                reported = reported.max(paid_before + 1);
                open.finish(&mut params, &generator).map_err(|error| format!("{error:?}"))?;
                (number, paid_before, event)
            };
            story.released.push(number);
            if let Some(event) = event {
                let cost = damper_core::accounting::renyi::divergence_at_integer(&event, ORDER);
                story.divergence = add_up(story.divergence, cost);
                spent = f64::max(spent, story.divergence);
            }
            let block = std::mem::take(&mut state.optimizer.noise);
            law(noise.insert(block), || format!("the noise of step {number} was there before"))?;
            if story.released.len() % plan.snapshot_every == 0 {
                let words = words_of(&params, &state.optimizer.sgd);
                tried.push(words);
                match snapshots.save(paid_before + 1, &mut (&mut params, &mut state)) {
                    Ok(()) => {
                        (kept, tried) = (words, Vec::new());
                    }
                    Err(_) if flash.is_dead() => break,
                    Err(error) => return Err(format!("a snapshot was not kept: {error:?}")),
                }
            }
        }
    }
}

/// A run on a journal that was provisioned on a chip without power cuts.
pub fn journaled<const W: usize, const E: usize>(
    plan: &Plan,
    flash: &Flash<W, E>,
    cuts: impl FnMut(u32) -> Option<u64>,
) -> Result<Story, String> {
    Journal::provision(flash.part(0, plan.journal), plan.run(), FirstBoot::confirmed_by_owner())
        .map_err(|error| format!("{error:?}"))?;
    train::<Journal<_>, W, E>(plan, flash, cuts)
}

/// The power fails after `first` events, then at random times.
pub fn cuts_after(first: u64, seed: u64, mean: u64) -> impl FnMut(u32) -> Option<u64> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |restarts| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match restarts {
            0 => Some(first),
            1..6 => Some((random >> 16) % (2 * mean)),
            _ => None,
        }
    }
}
