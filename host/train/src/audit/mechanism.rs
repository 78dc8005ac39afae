//! The mechanism as it is built, held against what the price assumes of it.
//!
//! The trainer itself runs, on made data and with keys of its own, while an observer sees each step before its release and each
//! release. The configuration is the user's: method, noise, grid, clip, rate, optimizer, ledger, workers. Noise is what was released
//! less the sum before it.
//!
//! | course | network | what it shows |
//! | --- | --- | --- |
//! | `own` | the user's, on made samples of its shapes | each tensor of the real network, the ledger's file at each step |
//! | `wide` | made, as many parameters as one step needs | each step |
//! | `narrow` | made, 18 parameters, as many steps as a coordinate needs | each coordinate, each count, each window of steps, coins of few samples |
//! | `draws` | made, 18 parameters, samples beyond two chunks of coins | each sample's rate, sums and counts against known gradients |
//! | `restarts` | made, steps of one run over four lives | numbers and noise after a crash |
//!
//! All tests together refute a right mechanism with a probability of at most [`ERROR_RATE`]: the p-values are upper bounds, and each
//! test has an equal share. Laws, such as the order of charges, need no chance.

mod across;
mod chance;
mod made;
mod restart;
mod seen;
mod tests_of;

pub use tests_of::{ERROR_RATE, Finding};

use super::{Claim, VERSION, check_claim};
use crate::generator;
use crate::step_loop;
use crate::{Alone, Evaluation, Progress, Run, StepReport, TrainError, observed, on_data, on_network};
use across::Across;
use chance::draws_for;
use damper_accounting::{Accountant, Plan};
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_data::Split;
use damper_onnx::SettingError;
use damper_runtime::open;
use made::{Linear, like};
use restart::Restarts;
use seen::Seen;
use serde::Serialize;
use std::time::Instant;
use tests_of::Tests;

/// The smallest deviation of the noise, as a share, that the usual audit finds at each step and coordinate.
pub const PRECISION: f64 = 0.01;

/// Options of the audit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MechanismOptions {
    /// The smallest deviation of the noise that is found at each step and coordinate, as a share: from 0.001 to 0.5.
    pub precision: f64,
    /// Seed of all randomness; keys from the operating system if not given.
    pub seed: Option<u64>,
}

/// The result: `audit-mechanism.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MechanismAudit {
    /// Of this format.
    pub version: u32,
    /// `mechanism`.
    pub audit: &'static str,
    /// True if everything holds.
    pub holds: bool,
    /// Of the run that was audited.
    pub claim: Claim,
    /// The probability that a right mechanism is refuted, at most.
    pub error_rate: f64,
    /// Tests that share it.
    pub tests: u64,
    /// See [`MechanismOptions::precision`].
    pub precision: f64,
    /// Seed of all randomness, where it was given.
    pub seed: Option<u64>,
    /// The backend.
    pub backend: String,
    /// The courses that ran.
    pub courses: Vec<CourseRecord>,
    /// The tests.
    pub findings: Vec<Finding>,
}

/// A course.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CourseRecord {
    /// `own`, `wide`, …
    pub name: String,
    /// Parameters of its network.
    pub parameters: usize,
    /// Made samples.
    pub samples: usize,
    /// Steps that were released.
    pub steps: u64,
    /// Runs of the trainer, each with a key of its own.
    pub runs: u32,
}

/// Audits the mechanism of `run`; `told` hears of progress.
///
/// # Errors
///
/// The precision is out of its range, the backend is absent or fails, or a temporary folder cannot be made or written.
pub fn mechanism(
    run: &Run,
    options: MechanismOptions,
    told: &mut dyn FnMut(&str),
) -> Result<MechanismAudit, TrainError> {
    check_claim(&run.config)?;
    let MechanismOptions { precision, seed } = options;
    if !(0.001..=0.5).contains(&precision) {
        let problem = "must be from 0.001 to 0.5; 0.01 is usual";
        return Err(SettingError::new("precision", precision, problem).into());
    }
    let backend = open(run.config.backend)?;
    told(&format!("backend: {}", backend.note()));
    let mut auditor = Auditor {
        precision,
        seed,
        tests: Tests::default(),
        across: Across::default(),
        courses: vec![],
        told,
        started: Instant::now(),
    };
    auditor.own(run)?;
    auditor.wide(run)?;
    auditor.draws(run)?;
    auditor.restarts(run)?;
    auditor.narrow(run)?;
    let Auditor { mut tests, across, courses, .. } = auditor;
    across.conclude(&mut tests);
    let (total, findings) = tests.judged();
    Ok(MechanismAudit {
        version: VERSION,
        audit: "mechanism",
        holds: findings.iter().all(|finding| finding.holds),
        claim: Claim::new(run),
        error_rate: ERROR_RATE,
        tests: total,
        precision,
        seed,
        backend: format!("{} {}", backend.name(), backend.version()),
        courses,
        findings,
    })
}

/// Samples that a course may draw in all, gradients at several points counted as often.
const GRADIENTS: f64 = 2e5;
/// Numbers that made data may have.
const NUMBERS: usize = 1 << 24;
/// Made samples of `draws`: three chunks of coins, of which the last is not full.
const SAMPLES: usize = 2100;
/// Runs of a schedule of noise that is shorter than a course, at most.
const RUNS: u32 = 1200;
/// Seeds of a course's runs lie between its number times this and the next's.
const SEEDS: u64 = 10_000;
/// Steps of `own` and of `wide`.
const OWN_STEPS: u32 = 48;
const WIDE_STEPS: u32 = 6;
/// Steps of the run of `restarts`.
const RESTARTED: u32 = 64;

struct Auditor<'a> {
    precision: f64,
    seed: Option<u64>,
    tests: Tests,
    across: Across,
    courses: Vec<CourseRecord>,
    told: &'a mut dyn FnMut(&str),
    started: Instant,
}

impl Auditor<'_> {
    /// Steps of a run that a schedule of noise or correlated noise allows: beyond its end it means nothing.
    fn steps(run: &Run, wanted: u64) -> u32 {
        let most = match run.terms.noise_schedule {
            // Long runs are whitened in quadratic time.
            _ if run.terms.correlated.is_some() => run.terms.steps.max(RESTARTED),
            AnyNoise::Schedule(NoiseSchedule::Constant) => u32::MAX - 1,
            _ => run.terms.steps,
        };
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, most)
    }

    /// Gradients a drawn sample takes.
    fn points(run: &Run) -> f64 {
        run.config.method.filter.gradients_per_sample() as f64
    }

    /// The user's network on made samples, about eight a step.
    fn own(&mut self, run: &Run) -> Result<(), TrainError> {
        let train = &run.data.train;
        let numbers: usize = train.features().iter().map(|features| features.shape.iter().product::<usize>()).sum();
        let wanted = (8.0 / run.terms.rate.as_f64()).round().max(4.0) as usize;
        let samples = wanted.min(train.len()).min(NUMBERS / numbers.max(1)).max(1);
        let needed = draws_for(self.precision).div_ceil(run.params.len() as u64).clamp(3, u64::from(OWN_STEPS));
        let made = on_data(run, like(train, samples), Self::steps(run, needed))?;
        self.step_loop("own", &made, None, 1, true)
    }

    /// Tests one step with many parameters.
    fn wide(&mut self, run: &Run) -> Result<(), TrainError> {
        let side = (draws_for(self.precision) as f64 / 2.0).sqrt().ceil().max(24.0) as usize;
        let linear = Linear { features: side, classes: side };
        let samples = ((4.0 / run.terms.rate.as_f64()).round() as usize).clamp(1, (NUMBERS / side).min(SAMPLES));
        let made = Self::on(run, linear, samples, false, u64::from(WIDE_STEPS))?;
        self.step_loop("wide", &made, Some(linear), 1, true)
    }

    /// Coins, sums and counts.
    fn draws(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let drawn = run.terms.rate.as_f64() * SAMPLES as f64 * Self::points(run);
        let steps = (GRADIENTS / drawn).clamp(64.0, 8192.0) * (PRECISION / self.precision).powi(2).clamp(0.125, 1.0);
        let made = Self::on(run, linear, SAMPLES, true, steps as u64)?;
        self.step_loop("draws", &made, Some(linear), 1, false)
    }

    /// Four lives of a run.
    fn restarts(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = Linear { features: 40, classes: 40 };
        let made = Self::on(run, linear, 1, false, RESTARTED.into())?;
        let seed = self.seed.map(|seed| seed.wrapping_add(self.courses.len() as u64 * SEEDS));
        let generator = generator::generator(seed, &mut *generator::key(seed)?);
        let backend = open(run.config.backend)?;
        let (across, tests) = (&mut self.across, &mut self.tests);
        let steps = step_loop::go(
            &made,
            backend.as_ref(),
            Restarts { run: &made, linear, generator: &generator, across, tests },
        )?;
        self.record("restarts", &made, u64::from(steps), 4);
        Ok(())
    }

    /// Tests one coordinate over many steps, nearly all of them without a sample.
    fn narrow(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let samples = ((0.1 / run.terms.rate.as_f64()).round() as usize).clamp(1, 64);
        let needed = draws_for(self.precision);
        let steps = Self::steps(run, needed.div_ceil(2));
        let runs = u32::try_from(needed.div_ceil(u64::from(steps))).unwrap_or(RUNS).min(RUNS);
        let made = Self::on(run, linear, samples, false, u64::from(steps))?;
        self.step_loop("narrow", &made, Some(linear), runs, false)
    }

    /// `run` with the made network.
    fn on(run: &Run, linear: Linear, samples: usize, spoilt: bool, steps: u64) -> Result<Run, TrainError> {
        let data: Split = linear.data(samples, run.config.method.threshold.clip(), spoilt);
        on_network(run, linear.model(), data, Self::steps(run, steps))
    }

    /// Runs the trainer so many times, observed.
    fn step_loop(
        &mut self,
        name: &str,
        made: &Run,
        linear: Option<Linear>,
        runs: u32,
        reads_ledger: bool,
    ) -> Result<(), TrainError> {
        let mut made = made.clone();
        // The course costs nothing, and what is told of it is not shown: the faster accountant, and a price of one event.
        (made.config.accountant, made.config.record, made.config.evaluate_every) = (Accountant::Rdp, None, None);
        made.plan = Some(Plan::constant(made.terms.event_rate, 1.0, None, 1)?);
        made.plan_delta = made.config.delta;
        let mut steps = 0;
        // The ledger of made data is worth no disk: it is kept in memory where memory is a folder.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).map_err(|error| {
            TrainError::Run(format!("no temporary folder ({error}): set TMPDIR to one that can be written"))
        })?;
        let per_window = draws_for(self.precision);
        let mut seen = Seen::new(&made, name, linear, reads_ledger, per_window, &mut self.across);
        let mut seeded: Vec<Run> = vec![];
        for index in 0..runs {
            let mut one = made.clone();
            let index = self.courses.len() as u64 * SEEDS + u64::from(index);
            one.config.seed = self.seed.map(|seed| seed.wrapping_add(index));
            seeded.push(one);
        }
        for one in &seeded {
            let checkpoint = folder.path().join(format!("{steps}"));
            std::fs::create_dir_all(&checkpoint)
                .map_err(|error| TrainError::Run(format!("{}: {error}", checkpoint.display())))?;
            seen.again(&checkpoint);
            let outcome = observed(one, &Alone, Some(&checkpoint), None, &mut Silent, Some(&mut seen))?;
            seen.ended(&outcome.recorded, outcome.steps);
            steps += u64::from(outcome.steps);
        }
        seen.conclude(&mut self.tests);
        self.record(name, &made, steps, runs);
        Ok(())
    }

    fn record(&mut self, name: &str, made: &Run, steps: u64, runs: u32) {
        let record = CourseRecord {
            name: name.into(),
            parameters: made.params.len(),
            samples: made.data.train.len(),
            steps,
            runs,
        };
        (self.told)(&format!(
            "{name}: {steps} steps of {} parameters, after {:.1} s",
            record.parameters,
            self.started.elapsed().as_secs_f64()
        ));
        self.courses.push(record);
    }
}

/// Eighteen parameters.
const SMALL: Linear = Linear { features: 3, classes: 3 };

/// Nobody is told of a course.
struct Silent;

impl Progress for Silent {
    fn backend(&mut self, _: &str) {}
    fn step(&mut self, _: &StepReport, _: &mut dyn FnMut(u32) -> f64) {}
    fn evaluated(&mut self, _: &Evaluation) {}
}
