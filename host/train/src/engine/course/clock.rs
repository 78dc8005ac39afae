//! The time of a run, over the processes that it took.

use crate::{Run, StepReport};
use std::time::{Duration, Instant};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// Seconds of a run, and when it was last told of.
pub(crate) struct Clock {
    /// Those of earlier processes.
    before: f64,
    started: Instant,
    told: Instant,
}

impl Clock {
    /// Goes on after `before` seconds.
    pub(crate) fn after(before: f64) -> Self {
        let started = Instant::now();
        Self { before, started, told: started }
    }

    /// Starts now.
    pub(super) fn start(&mut self) {
        *self = Self::after(self.before);
    }

    /// Seconds so far.
    pub(crate) fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Returns the progress after `step` steps of `run` at each twentieth of the run, however fast it is, and from time to time.
    pub(crate) fn report(&mut self, step: u32, run: &Run) -> Option<StepReport> {
        let steps = run.price.terms.steps;
        let twentieths = |step: u32| u64::from(step) * 20 / u64::from(steps);
        if self.told.elapsed() < TICK && twentieths(step) == twentieths(step - 1) {
            return None;
        }
        self.told = Instant::now();
        let seconds = self.seconds();
        let samples_per_second = f64::from(step) * f64::from(run.config.batch_size) / seconds;
        Some(StepReport { step, steps, seconds, samples_per_second })
    }
}
