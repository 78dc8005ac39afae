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
//! | `draws` | made, 18 parameters, the run's own number of samples | each sample's rate, sums and counts against known gradients |
//! | `samples` | none: the trainer's sampler alone, over the run's own number of samples | rates, sizes, pairs, shared coins |
//! | `tails` | made, steps without a sample | noise far out, clamped noise |
//! | `normalize` | made, one release of means and deviations | its noise, sums, charge, and how far a row moves it |
//! | `non-finite` | made, one release of a count a run | its noise, charge, and how far a row moves it |
//! | `held-out` | made, noisy figures of held-out rows | the same of them |
//! | `restarts` | made, steps of one run over four lives | numbers and noise after a crash |
//!
//! All tests together refute a right mechanism with a probability of at most [`ERROR_RATE`]: the p-values are upper bounds, and each
//! test has an equal share. Laws, such as the order of charges, need no chance.

mod across;
mod chance;
mod far_out;
mod first_step;
mod held_out;
mod made;
mod non_finite;
mod normalize;
mod power;
mod rates;
mod released;
mod restart;
mod samples;
mod seen;
mod tests_of;

pub use tests_of::{ERROR_RATE, Finding};

use super::{Claim, VERSION, check_claim};
use across::Across;
use chance::draws_for;
use damper_accounting::{Accountant, Plan};
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_data::Split;
use damper_onnx::SettingError;
use damper_runtime::open;
use damper_train::inside::generator;
use damper_train::inside::observe::Observer;
use damper_train::inside::observed;
use damper_train::inside::step_loop;
use damper_train::{Alone, Outcome, PrivateMetrics, Run, TestMetrics, TrainError};
use far_out::FarOut;
use held_out::SeenFigures;
use made::{Linear, like};
use non_finite::{CountNoise, SeenCount};
use normalize::SeenRelease;
use restart::Restarts;
use seen::Seen;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    auditor.samples(run)?;
    auditor.tails(run)?;
    auditor.normalize(run)?;
    auditor.non_finite(run)?;
    auditor.held_out(run)?;
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
/// Made samples of `draws` are as many as the run's, at least three chunks of coins, of which the last is not full; and at most so many.
const SAMPLES: usize = 2100;
const MOST_SAMPLES: usize = 1 << 22;
/// Draws of `tails`: at the usual precision cut tails are found at 5 deviations, and at 4.6 at any.
const FAR_DRAWS: (f64, f64) = (1.05e7, 4.2e7);
/// Steps of a run of `tails` with correlated noise, which takes the rows before to turn back.
const FAR_STEPS: u32 = 16;
/// Noisy figures are tested to so many times the precision, from a twentieth to a tenth.
const OF_FIGURES: f64 = 5.0;
/// The noise on a count is tested to so many times the precision, from a fifth to two fifths: each draw of it is a run.
const OF_COUNTS: f64 = 20.0;
const OF_COUNTS_FROM: [f64; 2] = [0.2, 0.4];
/// Releases of a run of which one row is changed.
const CHANGED: u32 = 4;
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
        let most = match run.price.terms.noise_schedule {
            // Long runs are whitened in quadratic time.
            _ if run.price.terms.correlated.is_some() => run.price.terms.steps.max(RESTARTED),
            AnyNoise::Schedule(NoiseSchedule::Constant) => u32::MAX - 1,
            _ => run.price.terms.steps,
        };
        // Bands reach no farther than a cycle of groups, which has as many steps.
        let cyclic = run.price.terms.correlated.filter(|noise| noise.rate.is_some());
        let least = cyclic.and_then(|noise| noise.correlation.bands()).map_or(1, |bands| bands as u32);
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(least.min(most), most)
    }

    /// Gradients a drawn sample takes.
    fn points(run: &Run) -> f64 {
        run.config.method.filter.gradients_per_sample() as f64
    }

    /// The user's network on made samples, about eight a step.
    fn own(&mut self, run: &Run) -> Result<(), TrainError> {
        let train = &run.data.train;
        let numbers: usize = train.features().iter().map(|features| features.shape.iter().product::<usize>()).sum();
        let wanted = (8.0 / run.price.terms.rate.as_f64()).round().max(4.0) as usize;
        let samples = wanted.min(train.len()).min(NUMBERS / numbers.max(1)).max(1);
        let needed = draws_for(self.precision).div_ceil(run.model.params.len() as u64).clamp(3, u64::from(OWN_STEPS));
        let made = run.on_data(like(train, samples), Self::steps(run, needed))?;
        self.step_loop("own", &made, None, 1, true)
    }

    /// Tests one step with many parameters.
    fn wide(&mut self, run: &Run) -> Result<(), TrainError> {
        let side = (draws_for(self.precision) as f64 / 2.0).sqrt().ceil().max(24.0) as usize;
        let linear = Linear { features: side, classes: side };
        let samples = ((4.0 / run.price.terms.rate.as_f64()).round() as usize).clamp(1, (NUMBERS / side).min(SAMPLES));
        let made = Self::on(run, linear, samples, false, u64::from(WIDE_STEPS))?;
        self.step_loop("wide", &made, Some(linear), 1, true)
    }

    /// Coins, sums and counts.
    fn draws(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let samples = run.data.train.len().clamp(SAMPLES, MOST_SAMPLES);
        let drawn = run.price.terms.rate.as_f64() * samples as f64 * Self::points(run);
        let steps = (GRADIENTS / drawn).clamp(16.0, 8192.0) * self.share();
        let made = Self::on(run, linear, samples, true, (steps as u64).max(16))?;
        self.step_loop("draws", &made, Some(linear), 1, false)
    }

    /// The share of the usual draws that a coarser audit takes.
    fn share(&self) -> f64 {
        (PRECISION / self.precision).powi(2).clamp(0.125, 1.0)
    }

    /// The draws of the run's own samples.
    fn samples(&mut self, run: &Run) -> Result<(), TrainError> {
        let seed = self.seed.map(|seed| seed.wrapping_add(self.courses.len() as u64 * SEEDS));
        let generator = generator::fresh(seed)?;
        let steps = samples::samples(run, self.share(), &generator, &mut self.tests);
        let record = CourseRecord {
            name: "samples".into(),
            parameters: 0,
            samples: run.data.train.len(),
            steps: steps.all,
            runs: 1,
        };
        (self.told)(&format!("samples: {} draws of {} samples", steps.own, record.samples));
        self.courses.push(record);
        Ok(())
    }

    /// Noise far out, of steps without a sample.
    fn tails(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = Linear { features: 256, classes: 256 };
        let draws = (FAR_DRAWS.1 * (PRECISION / self.precision).powi(2)).clamp(FAR_DRAWS.0, FAR_DRAWS.1);
        let needed = (draws / linear.dim() as f64).ceil() as u64;
        let a_run = if run.price.terms.correlated.is_some() { needed.min(FAR_STEPS.into()) } else { needed };
        let steps = Self::steps(run, a_run);
        let runs = needed.div_ceil(u64::from(steps)) as u32;
        let mut data = linear.data(1, run.config.method.threshold.clip(), false);
        data.set_null(0, true);
        let made = self.priced(run.on_network(linear.model(), data, steps)?)?;
        let mut far_out = FarOut::new(&made);
        let folders = self.folders()?;
        for index in 0..runs {
            far_out.again();
            self.observe(&self.keyed(&made, index), &folders.next(index)?, &mut far_out)?;
        }
        far_out.conclude(&mut self.tests);
        self.record("tails", &made, u64::from(runs) * u64::from(steps), runs);
        Ok(())
    }

    /// The release of the features' means and deviations, if the run makes one.
    fn normalize(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(normalize) = &run.config.normalize_private else { return Ok(()) };
        let columns = (draws_for((OF_FIGURES * self.precision).clamp(0.05, 0.1)) / 2).max(64) as usize;
        let linear = Linear { features: columns, classes: 2 };
        let one = normalize::bounds(normalize);
        let made = |auditor: &Self, rows: &[normalize::Row]| -> Result<(Run, Vec<f64>), TrainError> {
            let (data, sums) = normalize::data(&one, linear, rows);
            let mut made = auditor.priced(run.on_network(linear.model(), data, Self::steps(run, 1))?)?;
            (made.config.normalize_private, made.config.dataset_size) = (Some(one.clone()), None);
            Ok((made, sums))
        };
        let (base, sums) = made(self, &normalize::rows(None))?;
        let folders = self.folders()?;
        let folder = folders.next(0)?;
        let mut seen = SeenRelease::new(&base, &folder);
        self.observe(&self.keyed(&base, 0), &folder, &mut seen)?;
        seen.conclude(&one, &sums, &mut self.across, &mut self.tests);
        let unpriced = normalize::is_priced(run, normalize)?;
        self.tests.law("normalize: the release is part of the price, at its noise", 1, unpriced);
        // By one key, on the base and on its neighbours: the noise is the same.
        let seed = super::seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[normalize::Row], index: u32| -> Result<Vec<f64>, TrainError> {
            let (mut made, _) = made(auditor, rows)?;
            made.config.seed = Some(seed);
            let folder = folders.next(index)?;
            let mut seen = SeenRelease::new(&made, &folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok(seen.sums)
        };
        let kept = of(self, &normalize::rows(None), 1)?;
        for (row, index) in normalize::NEIGHBOURS.into_iter().zip(2..) {
            let other = of(self, &normalize::rows(Some(row)), index)?;
            let multiplier = normalize.noise_multiplier.unwrap_or(0.0);
            let broken = normalize::beyond_the_clip(row, normalize::apart(&kept, &other), multiplier);
            self.tests.law("normalize: one row moves the sums by at most the clip", 1, broken);
        }
        self.record("normalize", &base, base.price.terms.steps.into(), 2 + normalize::NEIGHBOURS.len() as u32);
        Ok(())
    }

    /// The release of the number of rows without a finite gradient, if the run makes one.
    fn non_finite(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(asked) = &run.config.release_non_finite else { return Ok(()) };
        let [least, most] = OF_COUNTS_FROM;
        let needed = draws_for((OF_COUNTS * self.precision).clamp(least, most));
        let runs = u32::try_from(needed).unwrap_or(RUNS).min(RUNS);
        let multiplier = asked.noise_multiplier.unwrap_or(0.0);
        let linear = SMALL;
        let made = |auditor: &Self, rows: &[non_finite::Row]| -> Result<(Run, f64), TrainError> {
            let data = non_finite::data(linear, rows);
            let mut made = auditor.priced(run.on_network(linear.model(), data, Self::steps(run, 1))?)?;
            made.config.release_non_finite = Some(*asked);
            let known = non_finite::known(linear, &made.data.train, &made.model.params);
            Ok((made, known))
        };
        let (base, known) = made(self, &non_finite::rows(None))?;
        let folders = self.folders()?;
        let mut noise = CountNoise::default();
        for index in 0..runs {
            let folder = folders.next(index)?;
            let mut seen = SeenCount::new(&base, &folder);
            self.observe(&self.keyed(&base, index), &folder, &mut seen)?;
            noise.add(&seen, known, multiplier);
        }
        noise.conclude(multiplier, &mut self.tests);
        let unpriced = non_finite::is_priced(run, asked)?;
        self.tests.law("non-finite: the release is part of the price, at its noise", 1, unpriced);
        // By one key, on the base and on its neighbours: the noise is the same.
        let seed = super::seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[non_finite::Row], index: u32| -> Result<(Vec<f64>, f64), TrainError> {
            let (mut made, known) = made(auditor, rows)?;
            made.config.seed = Some(seed);
            let folder = folders.next(runs + index)?;
            let mut seen = SeenCount::new(&made, &folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok((seen.released, known))
        };
        let (kept, _) = of(self, &non_finite::rows(None), 0)?;
        for (row, index) in non_finite::NEIGHBOURS.into_iter().zip(1..) {
            let (other, with) = of(self, &non_finite::rows(Some(row)), index)?;
            let broken = non_finite::moved_wrongly(row, with - known, [&kept, &other], multiplier);
            self.tests.law("non-finite: one row moves the count by one, or by nothing", 1, broken);
        }
        let all = runs + 1 + non_finite::NEIGHBOURS.len() as u32;
        self.record("non-finite", &base, u64::from(all) * u64::from(base.price.terms.steps), all);
        Ok(())
    }

    /// Noisy figures of held-out rows, if the run releases them.
    fn held_out(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(metrics) = &run.price.private_metrics else { return Ok(()) };
        let needed = draws_for((OF_FIGURES * self.precision).clamp(0.05, 0.1)).div_ceil(2);
        let steps = Self::steps(run, needed);
        let runs = u32::try_from(needed.div_ceil(u64::from(steps))).unwrap_or(RUNS).min(RUNS);
        let linear = SMALL;
        let made = |auditor: &Self, rows: &[held_out::Row], steps: u32, loss_bound: f32| -> Result<Run, TrainError> {
            let mut data = linear.data(1, run.config.method.threshold.clip(), false);
            data.set_null(0, true);
            let mut made = auditor.priced(run.on_network(linear.model(), data, steps)?)?;
            Arc::make_mut(&mut made.data).test = Some(held_out::data(linear, rows));
            made.price.private_metrics = Some(PrivateMetrics { releases: steps, loss_bound, ..metrics.clone() });
            made.config.test_metrics = TestMetrics::Private { loss_bound };
            // After each step.
            made.config.evaluate_every = Some(made.price.terms.rate.as_f64());
            Ok(made)
        };
        let base = made(self, &held_out::ROWS, steps, metrics.loss_bound)?;
        let folders = self.folders()?;
        let mut seen = SeenFigures::new(&base, metrics, linear);
        for index in 0..runs {
            let folder = folders.next(index)?;
            seen.again(&folder);
            self.observe(&self.keyed(&base, index), &folder, &mut seen)?;
        }
        seen.conclude(u64::from(runs) * u64::from(steps), &mut self.tests);
        // By one key, with one row more, and a bound that losses exceed.
        let seed = super::seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[held_out::Row], index: u32| -> Result<Vec<[f64; 2]>, TrainError> {
            let mut made = made(auditor, rows, Self::steps(run, CHANGED.into()), SMALL_BOUND)?;
            made.config.seed = Some(seed);
            let folder = folders.next(runs + index)?;
            let mut seen = SeenFigures::new(&made, metrics, linear);
            seen.again(&folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok(seen.released)
        };
        let kept = of(self, &held_out::ROWS, 0)?;
        for (row, index) in held_out::ADDED.into_iter().zip(1..) {
            let rows: Vec<held_out::Row> = held_out::ROWS.into_iter().chain([row]).collect();
            let broken = held_out::beyond_one(row, &kept, &of(self, &rows, index)?);
            self.tests.law("held-out: one row moves each sum by at most one", 1, broken);
        }
        self.record("held-out", &base, u64::from(runs) * u64::from(steps), runs + 1 + held_out::ADDED.len() as u32);
        Ok(())
    }

    /// Four lives of a run.
    fn restarts(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = Linear { features: 40, classes: 40 };
        let made = self.priced(Self::on(run, linear, 1, false, RESTARTED.into())?)?;
        let seed = self.seed.map(|seed| seed.wrapping_add(self.courses.len() as u64 * SEEDS));
        let generator = generator::fresh(seed)?;
        let backend = open(run.config.backend)?;
        let (across, tests) = (&mut self.across, &mut self.tests);
        let steps =
            step_loop::go(&made, backend.as_ref(), Restarts { run: &made, generator: &generator, across, tests })?;
        self.record("restarts", &made, u64::from(steps), 4);
        Ok(())
    }

    /// Tests one coordinate over many steps, nearly all of them without a sample.
    fn narrow(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let samples = ((0.1 / run.price.terms.rate.as_f64()).round() as usize).clamp(1, 64);
        let needed = draws_for(self.precision);
        let steps = Self::steps(run, needed.div_ceil(2));
        let runs = u32::try_from(needed.div_ceil(u64::from(steps))).unwrap_or(RUNS).min(RUNS);
        let made = Self::on(run, linear, samples, false, u64::from(steps))?;
        self.step_loop("narrow", &made, Some(linear), runs, false)
    }

    /// `run` with the made network.
    fn on(run: &Run, linear: Linear, samples: usize, spoilt: bool, steps: u64) -> Result<Run, TrainError> {
        let data: Split = linear.data(samples, run.config.method.threshold.clip(), spoilt);
        run.on_network(linear.model(), data, Self::steps(run, steps))
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
        let made = self.priced(made.clone())?;
        let mut steps = 0;
        let folders = self.folders()?;
        let per_window = draws_for(self.precision);
        let mut seen = Seen::new(&made, name, linear, reads_ledger, per_window, &mut self.across);
        let mut seeded: Vec<Run> = vec![];
        for index in 0..runs {
            let mut one = made.clone();
            let index = self.courses.len() as u64 * SEEDS + u64::from(index);
            one.config.seed = self.seed.map(|seed| seed.wrapping_add(index));
            seeded.push(one);
        }
        for (one, index) in seeded.iter().zip(0..) {
            let checkpoint = folders.next(index)?;
            seen.again(&checkpoint);
            let outcome = observed(one, &Alone, Some(&checkpoint), None, &mut (), Some(&mut seen))?;
            seen.ended(&outcome.recorded, outcome.steps);
            steps += u64::from(outcome.steps);
        }
        seen.conclude(&mut self.tests);
        self.record(name, &made, steps, runs);
        Ok(())
    }

    /// `made` at no cost, with no release but of its steps.
    fn priced(&self, mut made: Run) -> Result<Run, TrainError> {
        // The course costs nothing, and what is told of it is not shown: the faster accountant, and a price of one event.
        let config = &mut made.config;
        (config.accountant, config.record) = (Accountant::Rdp, None);
        (config.evaluate_every, config.stop_early) = (None, None);
        (config.normalize_private, config.release_non_finite) = (None, None);
        made.price.plan = Some(Plan::constant(made.price.terms.event_rate, 1.0, None, 1)?);
        made.price.plan_delta = made.config.delta;
        Ok(made)
    }

    /// `made` with the key of run `index` of the course.
    fn keyed(&self, made: &Run, index: u32) -> Run {
        let mut one = made.clone();
        let index = self.courses.len() as u64 * SEEDS + u64::from(index);
        one.config.seed = self.seed.map(|seed| seed.wrapping_add(index));
        one
    }

    /// Folders of the runs of a course. The ledger of made data is worth no disk: it is kept in memory where memory is a folder.
    fn folders(&self) -> Result<Folders, TrainError> {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).map_err(|error| {
            TrainError::Run(format!("no temporary folder ({error}): set TMPDIR to one that can be written"))
        })?;
        Ok(Folders(folder))
    }

    /// Runs the trainer once.
    fn observe(&self, one: &Run, folder: &Path, observer: &mut dyn Observer) -> Result<Outcome, TrainError> {
        observed(one, &Alone, Some(folder), None, &mut (), Some(observer))
    }

    fn record(&mut self, name: &str, made: &Run, steps: u64, runs: u32) {
        let record = CourseRecord {
            name: name.into(),
            parameters: made.model.params.len(),
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

/// A bound that the loss of equal logits exceeds.
const SMALL_BOUND: f32 = 0.25;

/// The folders of a course.
struct Folders(tempfile::TempDir);

impl Folders {
    /// An empty one for run `index`.
    fn next(&self, index: u32) -> Result<PathBuf, TrainError> {
        let folder = self.0.path().join(index.to_string());
        std::fs::create_dir_all(&folder).map_err(|error| TrainError::Run(format!("{}: {error}", folder.display())))?;
        Ok(folder)
    }
}
