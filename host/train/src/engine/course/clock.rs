//! The time of a run, over all its processes.

use crate::{Run, StepReport};
use std::time::{Duration, Instant};

/// Interval between progress events.
const TICK: Duration = Duration::from_millis(100);

/// Seconds of a run, and the time of the last progress event.
pub(crate) struct Clock {
    /// Seconds of earlier processes.
    before: f64,
    started: Instant,
    told: Instant,
}

impl Clock {
    /// Continues after `before` seconds.
    pub(crate) fn after(before: f64) -> Self {
        let started = Instant::now();
        Self { before, started, told: started }
    }

    /// Starts the clock.
    pub(super) fn start(&mut self) {
        *self = Self::after(self.before);
    }

    /// Returns the seconds so far.
    pub(crate) fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Returns a progress report after `step` steps of `run`, if one is due. It is due at each twentieth of the run,
    /// and after each [`TICK`].
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
