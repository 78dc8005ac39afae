//! Record and replay on neighbouring data: each step runs with the same randomness on the data set and on its
//! neighbours.
//!
//! The audit checks the properties that every accountant assumes. After "Re:cord-play" (arXiv 2602.17454), which found
//! 13 violations in 12 libraries.
//!
//! An accountant bounds what one sample can change in a release before the noise is added, whatever was released so
//! far. So the history is recorded on the data set and replayed on its neighbours. Each step starts from the parameters
//! and the state that releases on the data set left. All data sets take the step up to the clipped sum, at which the
//! mechanism adds its noise. These properties must hold for each neighbour:
//!
//! 1. The step has the same address, event and clip. The draw is the same except for a sample that was added. The
//!    number of persisted charges equals the number of draws.
//! 2. Every other sample's combined gradient has the same bits, so it adds the same values.
//! 3. The clipped sum moves by at most the clip, or twice the clip if a sample is replaced. The audit compares squares
//!    of integers in 128 bits, for the whole and for each layer with its own clip. A sample that was not drawn, or was
//!    added and is not finite, moves the sum by zero. Sums of floats are compared with the clip plus a bound on their
//!    rounding.
//! 4. Counts of norms, as the step stores them, move by one, or by two if a sample is replaced.
//!
//! The position of a sample must not matter. The same samples in other rows, chunks and workers have the same sum and
//! counts, bit for bit.
//!
//! The replay runs the trainer's own step, workers and graphs. The randomness is a simulation's, chosen such that the
//! samples that differ are drawn. Nothing is released.

mod case;
mod law;

pub use case::{Change, Made};

use super::sum_probe::{Account, Driven, Order};
use super::{Claim, VERSION, check_rules, check_sampler, seed_or_drawn};
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

/// Number of seeds that are tried to draw the added sample.
const TRIES: u64 = 4096;

/// Options of the audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourOptions {
    /// Number of replayed steps, at most those of the run.
    pub steps: u32,
    /// First seed of the search for the replay's seed. If absent, it comes from the operating system.
    pub seed: Option<u64>,
}

/// Record of the audit: `audit-neighbours.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct NeighbourAudit {
    /// Version of this format.
    pub version: u32,
    /// Always `neighbours`.
    pub audit: &'static str,
    /// True if no check failed.
    pub holds: bool,
    /// Claim of the replayed run.
    pub claim: Claim,
    /// Number of replayed steps.
    pub steps: u32,
    /// Seed of the replay.
    pub seed: u64,
    /// Name and version of the backend.
    pub backend: String,
    /// `compared bit for bit`, or the reason for no comparison.
    pub other_samples: &'static str,
    /// Verdict for each neighbour.
    pub cases: Vec<Verdict>,
}

/// Verdict for one neighbour.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// Short description.
    pub case: String,
    /// Kind of difference.
    pub change: Change,
    /// Kind of the sample that is added or substituted.
    pub made: Option<Made>,
    /// Index of the sample that differs.
    pub sample: u32,
    /// Number of steps that drew it.
    pub drawn: u32,
    /// First failed check.
    pub violation: Option<Violation>,
}

/// Location of a failed check.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Violation {
    /// Step, counted from 0.
    pub step: u32,
    /// Index of the sample.
    pub sample: u32,
    /// Parameter, if the check concerns coordinates.
    pub parameter: Option<String>,
    /// Flat coordinate in `parameter`.
    pub coordinate: Option<usize>,
    /// Description of the failed check.
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

/// Replays steps of `run` on neighbours of its data. `told` is the progress callback.
///
/// # Errors
///
/// The backend is absent or fails, no seed draws the added sample in so few steps, or the data has no sample.
pub fn neighbours(
    run: &Run,
    options: NeighbourOptions,
    told: &mut dyn FnMut(&str),
) -> Result<NeighbourAudit, TrainError> {
    check_rules(run)?;
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

/// The randomness of a replay, and the samples that differ.
pub(super) struct Chosen {
    seed: u64,
    generator: RunGenerator,
    index: u32,
    donor: u32,
}

impl Chosen {
    /// Searches from `seed` for the first seed that draws the sample after the last, and chooses the samples drawn most
    /// often.
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

/// Step loop that replays a run and returns verdicts.
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
        // The releases on the data set drive the replay. Each neighbour is only observed.
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
                // Without an observer, as in the trainer.
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

/// Returns the verdict on the data set itself, with its samples moved.
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
    /// Takes the next step on `split`.
    fn side(&mut self, split: &Split, account: &mut Account) -> Result<Side, TrainError> {
        let mut watch = Watch { samples: vec![] };
        let sum_probe = self.sum_probe(split, account, Order::Drawn, Some(&mut watch))?;
        Ok(Side { sum_probe, samples: watch.samples })
    }

    /// Locates a failed check in the model's names. If a gradient moved, computes it again on both data sets to find
    /// the coordinate.
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

/// Returns the parameter that contains coordinate `at` of the flat gradient, and the coordinate in it.
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

/// Copies one sample's gradient.
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
