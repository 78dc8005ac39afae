//! The time of a run, over the processes that it took.

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

    /// Returns true, and begins anew, if progress is to be told after `done` of `steps` steps: each twentieth of the run, however fast it goes,
    /// and from time to time.
    pub(crate) fn is_time(&mut self, done: u32, steps: u32) -> bool {
        let twentieths = |done: u32| u64::from(done) * 20 / u64::from(steps);
        let is_time = self.told.elapsed() >= TICK || twentieths(done) > twentieths(done - 1);
        if is_time {
            self.told = Instant::now();
        }
        is_time
    }
}
