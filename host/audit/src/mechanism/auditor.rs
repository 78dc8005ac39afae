//! The auditor: runs the trainer on synthetic data under observation, and records each course.

use super::across::Across;
use super::chance::draws_for;
use super::made::Linear;
use super::seen::Seen;
use super::tests_of::Tests;
use damper_accounting::{Accountant, Plan};
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_data::Split;
use damper_train::inside::observe::Observer;
use damper_train::inside::observed;
use damper_train::{Alone, Outcome, Run, TrainError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Default precision: the smallest relative deviation of the noise that the audit detects at each step and coordinate.
pub const PRECISION: f64 = 0.01;
/// Maximum number of runs if a noise schedule is shorter than a course.
pub(super) const RUNS: u32 = 1200;
/// Distance between the seeds of two courses. The seeds of a course's runs start at its number times this.
pub(super) const SEEDS: u64 = 10_000;
/// Steps of the run of `restarts`.
pub(super) const RESTARTED: u32 = 64;

/// Record of a course.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CourseRecord {
    /// Name: `own`, `wide`, …
    pub name: String,
    /// Number of parameters of its network.
    pub parameters: usize,
    /// Number of synthetic samples.
    pub samples: usize,
    /// Number of released steps.
    pub steps: u64,
    /// Number of runs of the trainer, each with its own key.
    pub runs: u32,
}

pub(super) struct Auditor<'a> {
    pub(super) precision: f64,
    pub(super) seed: Option<u64>,
    pub(super) tests: Tests,
    pub(super) across: Across,
    pub(super) courses: Vec<CourseRecord>,
    pub(super) told: &'a mut dyn FnMut(&str),
    pub(super) started: Instant,
}

impl Auditor<'_> {
    /// Returns the steps of a run, limited by its noise schedule or correlated noise, which are undefined after their
    /// end.
    pub(super) fn steps(run: &Run, wanted: u64) -> u32 {
        let most = match run.price.terms.noise_schedule {
            // Whitening takes quadratic time in the number of steps.
            _ if run.price.terms.correlated.is_some() => run.price.terms.steps.max(RESTARTED),
            AnyNoise::Schedule(NoiseSchedule::Constant) => u32::MAX - 1,
            _ => run.price.terms.steps,
        };
        // Bands reach no farther than a cycle of groups, which has as many steps.
        let cyclic = run.price.terms.correlated.filter(|noise| noise.rate.is_some());
        let least = cyclic.and_then(|noise| noise.correlation.bands()).map_or(1, |bands| bands as u32);
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(least.min(most), most)
    }

    /// Returns the number of gradients per drawn sample.
    pub(super) fn points(run: &Run) -> f64 {
        run.config.method.filter.gradients_per_sample() as f64
    }

    /// Returns `run` with the synthetic network.
    pub(super) fn on(run: &Run, linear: Linear, samples: usize, spoilt: bool, steps: u64) -> Result<Run, TrainError> {
        let data: Split = linear.data(samples, run.config.method.threshold.clip(), spoilt);
        run.on_network(linear.model(), data, Self::steps(run, steps))
    }

    /// Returns the share of the default number of draws at this precision, at most 1.
    pub(super) fn share(&self) -> f64 {
        (PRECISION / self.precision).powi(2).clamp(0.125, 1.0)
    }

    /// Returns `made` with the RDP accountant, a plan of one event, and no release except its steps.
    pub(super) fn priced(&self, mut made: Run) -> Result<Run, TrainError> {
        // The privacy cost of the course is not reported: use the faster accountant, and one event.
        let config = &mut made.config;
        (config.accountant, config.record) = (Accountant::Rdp, None);
        (config.evaluate_every, config.stop_early) = (None, None);
        (config.normalize_private, config.release_non_finite) = (None, None);
        made.price.plan = Some(Plan::constant(made.price.terms.event_rate, 1.0, None, 1)?);
        made.price.plan_delta = made.config.delta;
        Ok(made)
    }

    /// Returns `made` with the key of run `index` of the course.
    pub(super) fn keyed(&self, made: &Run, index: u32) -> Run {
        let mut one = made.clone();
        let index = self.courses.len() as u64 * SEEDS + u64::from(index);
        one.config.seed = self.seed.map(|seed| seed.wrapping_add(index));
        one
    }

    /// Creates the folders of the runs of a course, in a RAM disk if possible. The ledger of synthetic data needs no
    /// disk.
    pub(super) fn folders(&self) -> Result<Folders, TrainError> {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).map_err(|error| {
            TrainError::Run(format!("no temporary folder ({error}): set TMPDIR to one that can be written"))
        })?;
        Ok(Folders(folder))
    }

    /// Runs the trainer once.
    pub(super) fn observe(&self, one: &Run, folder: &Path, observer: &mut dyn Observer) -> Result<Outcome, TrainError> {
        observed(one, &Alone, Some(folder), None, &mut (), Some(observer))
    }

    pub(super) fn record(&mut self, name: &str, made: &Run, steps: u64, runs: u32) {
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

    /// Runs the trainer repeatedly under observation.
    pub(super) fn step_loop(
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
}

/// The small network: eighteen parameters.
pub(super) const SMALL: Linear = Linear { features: 3, classes: 3 };

/// Folders of a course.
pub(super) struct Folders(tempfile::TempDir);

impl Folders {
    /// Creates an empty folder for run `index`.
    pub(super) fn next(&self, index: u32) -> Result<PathBuf, TrainError> {
        let folder = self.0.path().join(index.to_string());
        std::fs::create_dir_all(&folder).map_err(|error| TrainError::Run(format!("{}: {error}", folder.display())))?;
        Ok(folder)
    }
}
