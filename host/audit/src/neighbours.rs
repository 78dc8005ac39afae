//! Record and replay on neighbouring data: one step after the other, the same randomness on the data set and on its neighbours, held
//! to the laws that every accountant takes for granted. After "Re:cord-play" (arXiv 2602.17454), which found 13 violations in 12
//! libraries.
//!
//! An accountant prices a release by what one sample can change before the noise is added, whatever was released so far. So the
//! history is recorded on the data set and replayed on its neighbours: each step starts from the parameters and the memory that
//! releases on the data set left, and is taken on all of them, up to the clipped sum, which is where the mechanism adds its noise.
//! Then must hold, for each neighbour:
//!
//! 1. the same step at the same address, of the same price and clip; the same draw but for a sample that was added; as many
//!    charges persisted as draws made;
//! 2. every other sample's mixed gradient has the same bits, hence adds the same;
//! 3. the clipped sum moves by at most the clip, twice the clip where a sample is replaced: squares of integers in 128 bits, of the
//!    whole and of each layer that is clipped on its own. A sample that was not drawn, or was added and is not finite, moves no
//!    unit. Sums of floats are held to the clip and a bound on their rounding;
//! 4. counts of norms, as the step holds them, move by one, by two where a sample is replaced.
//!
//! Where a sample lies must not matter: the same samples in other rows, chunks and workers have the same sum and counts, bit for bit.
//!
//! What is replayed is the trainer's own step, workers and graphs. The randomness is a simulation's, chosen so that the samples that
//! differ are drawn; nothing is released.

mod case;
mod law;

pub use case::{Change, Made};

use super::sum_probe::{Account, Driven, Order};
use super::{Claim, VERSION, check_sampler, seed_or_drawn};
use case::Case;
use damper_core::numerics::digest::Digest;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::sampling::poisson;
use damper_core::slots::OptimizerSlot;
use damper_data::Split;
use damper_onnx::SettingError;
use damper_runtime::open;
use damper_train::inside::OptimizerState;
use damper_train::inside::generator::RunGenerator;
use damper_train::inside::step_loop::{self, Draw, StepLoop, StepSum};
use damper_train::inside::trained::Trained;
use damper_train::inside::worker::{Accumulate, GradientObserver, ParamLayout};
use damper_train::{Run, TrainError};
use law::{CheckFailure, Checks, Side};
use serde::Serialize;
use std::fmt;

/// Seeds that are tried for one that draws the added sample.
const TRIES: u64 = 4096;

/// Options of the audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourOptions {
    /// Steps that are replayed, at most those of the run.
    pub steps: u32,
    /// Start of the search for the replay's seed; from the operating system if not given.
    pub seed: Option<u64>,
}

/// The result: `audit-neighbours.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NeighbourAudit {
    /// Of this format.
    pub version: u32,
    /// `neighbours`.
    pub audit: &'static str,
    /// True if no law was broken.
    pub holds: bool,
    /// Of the run that was replayed.
    pub claim: Claim,
    /// Steps replayed.
    pub steps: u32,
    /// Seed of the replay.
    pub seed: u64,
    /// The backend.
    pub backend: String,
    /// `compared bit for bit`, or why not.
    pub other_samples: &'static str,
    /// One a neighbour.
    pub cases: Vec<Verdict>,
}

/// The result for one neighbour.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// In a few words.
    pub case: String,
    /// The difference.
    pub change: Change,
    /// The sample that comes in.
    pub made: Option<Made>,
    /// The sample that differs.
    pub sample: u32,
    /// Steps that drew it.
    pub drawn: u32,
    /// The first law broken.
    pub violation: Option<Violation>,
}

/// The place of a failed check.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Violation {
    /// The step, counted from 0.
    pub step: u32,
    /// The sample.
    pub sample: u32,
    /// The parameter and the coordinate in it, flat, where the law is of coordinates.
    pub parameter: Option<String>,
    /// See `parameter`.
    pub coordinate: Option<usize>,
    /// The check.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, sample {}", self.step, self.sample)?;
        if let (Some(parameter), Some(coordinate)) = (&self.parameter, self.coordinate) {
            write!(f, ", {parameter}[{coordinate}]")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Replays steps of `run` on neighbours of its data; `told` hears of progress.
///
/// # Errors
///
/// The backend is absent or fails, no seed draws the added sample in so few steps, or the data has no sample.
pub fn neighbours(
    run: &Run,
    options: NeighbourOptions,
    told: &mut dyn FnMut(&str),
) -> Result<NeighbourAudit, TrainError> {
    check_sampler(&run.config)?;
    let steps = options.steps.clamp(1, run.price.terms.steps);
    let chosen = Chosen::new(run, steps, options.seed)?;
    let backend = open(run.config.backend)?;
    told(&format!("backend: {}", backend.note()));
    let seed = chosen.seed;
    let cases = step_loop::go(run, backend.as_ref(), Replay { run, steps, chosen, told })?;
    Ok(NeighbourAudit {
        version: VERSION,
        audit: "neighbours",
        holds: cases.iter().all(|case| case.violation.is_none()),
        claim: Claim::new(run),
        steps,
        seed,
        backend: format!("{} {}", backend.name(), backend.version()),
        other_samples: match run.model.clipped {
            None => "compared bit for bit",
            Some(_) => "not compared: the backend forms clipped sums, and no sample's gradient",
        },
        cases,
    })
}

/// The randomness, and the samples that differ.
pub(super) struct Chosen {
    seed: u64,
    generator: RunGenerator,
    index: u32,
    donor: u32,
}

impl Chosen {
    /// The first seed from `seed` on that draws the sample behind the last, and the samples that it draws most often.
    pub(super) fn new(run: &Run, steps: u32, seed: Option<u64>) -> Result<Self, TrainError> {
        let split = &run.data.train;
        let last = split.len();
        let seed = seed_or_drawn(seed)?;
        for seed in (0..TRIES).map(|attempt| seed.wrapping_add(attempt)) {
            let generator = RunGenerator::simulation(seed);
            let mut drawn = vec![0u32; last + 1];
            for step in 0..steps {
                poisson(&generator, step, run.price.terms.rate, last as u32 + 1)
                    .for_each(|sample| drawn[sample as usize] += 1);
            }
            if drawn[last] == 0 {
                continue;
            }
            let mut samples: Vec<u32> = (0..last as u32).filter(|sample| !split.is_null(*sample as usize)).collect();
            samples.sort_by_key(|sample| std::cmp::Reverse(drawn[*sample as usize]));
            let Some(&index) = samples.first() else {
                let problem = "every row was dropped, and a neighbour needs a sample";
                return Err(SettingError::new("data", "", problem).into());
            };
            let donor = samples.get(1).copied().unwrap_or(index);
            return Ok(Self { seed, generator, index, donor });
        }
        let problem = format!(
            "at a sampling rate of {:.2e} the sample that is added is never drawn in so few; give more",
            run.price.terms.rate.as_f64()
        );
        Err(SettingError::new("steps", steps, problem).into())
    }
}

/// The replay, on its way to verdicts.
pub(super) struct Replay<'a> {
    pub(super) run: &'a Run,
    pub(super) steps: u32,
    pub(super) chosen: Chosen,
    pub(super) told: &'a mut dyn FnMut(&str),
}

impl StepLoop for Replay<'_> {
    type End = Vec<Verdict>;

    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Vec<Verdict>, TrainError>
    where
        M: Trained,
        G: Accumulate<M>,
        StepSum: From<Vec<M::Word>>,
    {
        let Self { run, steps, chosen, told } = self;
        let layers = step_loop::layers(run);
        let noise = mechanism
            .noise(run.model.params.len(), 0, &chosen.generator)
            .map_err(|error| TrainError::Run(error.to_string()))?;
        let (step, state) = step_loop::step(run, mechanism, noise, &layers, |optimizer, state| (optimizer, state))?;
        let mut split = run.data.train.in_memory()?;
        let cases = Case::all(&split, chosen.index, chosen.donor);
        let laws = Checks { grid_bits: run.config.grid_bits, layers: &layers };
        // It goes on by what the data set releases, and is looked at from its neighbours.
        let mut replayed = Driven {
            run,
            step: &step,
            state,
            workers,
            params: run.model.params.clone(),
            generator: &chosen.generator,
            draw: Draw::new(run, &chosen.generator),
            others: 0,
        };
        let account = || Account::new(run.price.terms.steps);
        let (mut real, mut base) = (account(), account());
        let mut accounts: Vec<Account> = cases.iter().map(|_| account()).collect();
        let mut verdicts: Vec<Verdict> = cases.iter().map(verdict).collect();
        let (mut beside, mut moved) = (account(), moved_verdict());
        for number in 0..steps {
            let base_side = replayed.side(&split, &mut base)?;
            for ((case, account), verdict) in cases.iter().zip(&mut accounts).zip(&mut verdicts) {
                if verdict.violation.is_some() {
                    continue;
                }
                let undo = case.apply(&mut split);
                let seen = replayed.side(&split, account);
                case.undo(&mut split, undo);
                let seen = seen?;
                verdict.drawn += u32::from(base_side.drew(case.index) || seen.drew(case.index));
                let unpaid = |what| CheckFailure { what, sample: case.index, coordinate: None, moved: false };
                let checked = laws.check(&base_side, &seen, case).and_then(|()| account.settled().map_err(unpaid));
                if let Err(breach) = checked {
                    verdict.violation = Some(replayed.violation(number, breach, case, &mut split)?);
                }
            }
            if moved.violation.is_none() {
                // Without a witness: as the trainer takes them.
                let seen = replayed.sum_probe(&split, &mut beside, Order::Moved, None)?;
                moved.drawn += u32::from(seen.draw.len() > 1);
                moved.violation = laws.moved(&base_side.sum_probe, &seen).err().map(|(what, coordinate)| {
                    let (parameter, coordinate) = coordinate.and_then(|at| place(run, at)).unzip();
                    let sample = seen.draw.first().copied().unwrap_or_default();
                    Violation { step: number, sample, parameter, coordinate, what }
                });
            }
            replayed.advance(&split, &mut real, |_, _| ())?;
            told(&format!("step {}/{steps}: {} neighbours", number + 1, cases.len()));
        }
        verdicts.push(moved);
        Ok(verdicts)
    }
}

fn verdict(case: &Case) -> Verdict {
    Verdict { case: case.name(), change: case.change, made: case.made, sample: case.index, drawn: 0, violation: None }
}

/// Of the data set itself, with its samples moved.
fn moved_verdict() -> Verdict {
    let case = "no sample changed, all in other rows, chunks and workers".into();
    Verdict { case, change: Change::Moved, made: None, sample: 0, drawn: 0, violation: None }
}

impl<M, G> Driven<'_, M, OptimizerSlot, OptimizerState, G>
where
    M: Trained,
    G: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// The coming step on `split`.
    fn side(&mut self, split: &Split, account: &mut Account) -> Result<Side, TrainError> {
        let mut watch = Watch { samples: vec![] };
        let sum_probe = self.sum_probe(split, account, Order::Drawn, Some(&mut watch))?;
        Ok(Side { sum_probe, samples: watch.samples })
    }

    /// The place of a breach, in the model's names; if a gradient moved, found by computing it again on both sides.
    fn violation(
        &mut self,
        step: u32,
        breach: CheckFailure,
        case: &Case,
        split: &mut Split,
    ) -> Result<Violation, TrainError> {
        let mut coordinate = breach.coordinate;
        if breach.moved {
            let mut look = |split: &Split| -> Result<Vec<u32>, TrainError> {
                let mut keep = Keep { sample: breach.sample, bits: vec![] };
                self.sum_probe(
                    split,
                    &mut Account::at(self.run.price.terms.steps, step),
                    Order::Drawn,
                    Some(&mut keep),
                )?;
                Ok(keep.bits)
            };
            let base = look(split)?;
            let undo = case.apply(split);
            let seen = look(split);
            case.undo(split, undo);
            coordinate = base.iter().zip(&seen?).position(|(a, b)| a != b);
        }
        let place = coordinate.and_then(|at| place(self.run, at));
        let (parameter, coordinate) = place.unzip();
        Ok(Violation { step, sample: breach.sample, parameter, coordinate, what: breach.what })
    }
}

/// The parameter that holds coordinate `at` of the flat gradient, and the coordinate in it.
fn place(run: &Run, at: usize) -> Option<(String, usize)> {
    let mut left = at;
    let layout = ParamLayout::new(&run.model.grad);
    for (spec, length) in run.model.grad.parameters.iter().zip(layout.lengths()) {
        if left < *length {
            return Some((spec.name.clone(), left));
        }
        left -= length;
    }
    None
}

/// Digests each sample's gradient.
struct Watch {
    samples: Vec<(u32, Option<u64>)>,
}

impl GradientObserver for Watch {
    fn sample(&mut self, sample: u32, mixed: &[f32]) {
        let counts = sum_of_squares([mixed].into_iter()).is_finite();
        self.samples.push((sample, counts.then(|| Digest::of(mixed).value())));
    }
}

/// Keeps one sample's gradient.
struct Keep {
    sample: u32,
    bits: Vec<u32>,
}

impl GradientObserver for Keep {
    fn sample(&mut self, sample: u32, mixed: &[f32]) {
        if sample == self.sample {
            self.bits = mixed.iter().map(|x| x.to_bits()).collect();
        }
    }
}
