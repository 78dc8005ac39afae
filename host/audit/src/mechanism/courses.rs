//! Courses of steps.

use super::auditor::{Auditor, CourseRecord, PRECISION, RESTARTED, RUNS, SEEDS, SMALL};
use super::chance::draws_for;
use super::far_out::FarOut;
use super::made::{Linear, like};
use super::restart::Restarts;
use super::samples;
use damper_runtime::open;
use damper_train::inside::generator;
use damper_train::inside::step_loop;
use damper_train::{Run, TrainError};

/// Maximum number of drawn samples of a course. Gradients at several evaluation points count separately.
const GRADIENTS: f64 = 2e5;
/// Maximum number of values in synthetic data.
const NUMBERS: usize = 1 << 24;
/// Minimum number of synthetic samples of `draws`: at least three chunks of trials, the last not full. The usual number
/// is the run's. [`MOST_SAMPLES`] is the maximum.
const SAMPLES: usize = 2100;
const MOST_SAMPLES: usize = 1 << 22;
/// Draws of `tails`. They detect truncated tails at 5 deviations at the default precision, and at 4.6 at any precision.
const FAR_DRAWS: (f64, f64) = (1.05e7, 4.2e7);
/// Steps of a run of `tails` with correlated noise. Whitening needs the earlier rows.
const FAR_STEPS: u32 = 16;
/// Steps of `own` and of `wide`.
const OWN_STEPS: u32 = 48;
const WIDE_STEPS: u32 = 6;

impl Auditor<'_> {
    /// Runs the user's network on synthetic samples, about eight in a step.
    pub(super) fn own(&mut self, run: &Run) -> Result<(), TrainError> {
        let train = &run.data.train;
        let numbers: usize = train.features().iter().map(|features| features.shape.iter().product::<usize>()).sum();
        let wanted = (8.0 / run.price.terms.rate.as_f64()).round().max(4.0) as usize;
        let samples = wanted.min(train.len()).min(NUMBERS / numbers.max(1)).max(1);
        let needed = draws_for(self.precision).div_ceil(run.model.params.len() as u64).clamp(3, u64::from(OWN_STEPS));
        let made = run.on_data(like(train, samples), Self::steps(run, needed))?;
        self.step_loop("own", &made, None, 1, true)
    }

    /// Tests one step with many parameters.
    pub(super) fn wide(&mut self, run: &Run) -> Result<(), TrainError> {
        let side = (draws_for(self.precision) as f64 / 2.0).sqrt().ceil().max(24.0) as usize;
        let linear = Linear { features: side, classes: side };
        let samples = ((4.0 / run.price.terms.rate.as_f64()).round() as usize).clamp(1, (NUMBERS / side).min(SAMPLES));
        let made = Self::on(run, linear, samples, false, u64::from(WIDE_STEPS))?;
        self.step_loop("wide", &made, Some(linear), 1, true)
    }

    /// Tests Bernoulli trials, sums and counts.
    pub(super) fn draws(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let samples = run.data.train.len().clamp(SAMPLES, MOST_SAMPLES);
        let drawn = run.price.terms.rate.as_f64() * samples as f64 * Self::points(run);
        let steps = (GRADIENTS / drawn).clamp(16.0, 8192.0) * self.share();
        let made = Self::on(run, linear, samples, true, (steps as u64).max(16))?;
        self.step_loop("draws", &made, Some(linear), 1, false)
    }

    /// Tests the draws of the run's own samples.
    pub(super) fn samples(&mut self, run: &Run) -> Result<(), TrainError> {
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

    /// Tests the far tails of the noise, on steps without a sample.
    pub(super) fn tails(&mut self, run: &Run) -> Result<(), TrainError> {
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

    /// Tests four lives of a run.
    pub(super) fn restarts(&mut self, run: &Run) -> Result<(), TrainError> {
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
    pub(super) fn narrow(&mut self, run: &Run) -> Result<(), TrainError> {
        let linear = SMALL;
        let samples = ((0.1 / run.price.terms.rate.as_f64()).round() as usize).clamp(1, 64);
        let needed = draws_for(self.precision);
        let steps = Self::steps(run, needed.div_ceil(2));
        let runs = u32::try_from(needed.div_ceil(u64::from(steps))).unwrap_or(RUNS).min(RUNS);
        let made = Self::on(run, linear, samples, false, u64::from(steps))?;
        self.step_loop("narrow", &made, Some(linear), runs, false)
    }
}
