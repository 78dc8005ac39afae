//! The released number of training samples without a finite gradient.

use damper_accounting::{Event, upward};
use damper_train::{NonFiniteCount, Run};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The released number of training samples without a finite gradient at the initial parameters, with noise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NonFiniteReport {
    /// Noisy number as released. Null if a crash lost it after its charge.
    pub released: Option<f32>,
    /// The same as an integer from 0 to `samples`.
    pub count: Option<u64>,
    /// Number of training samples, or the declared number.
    pub samples: u64,
    /// σ of the release. One sample adds at most 1, so this is the standard deviation of the noise in samples.
    pub noise_multiplier: f64,
    /// ε of the release alone, at the run's δ.
    pub epsilon: f64,
}

impl NonFiniteReport {
    /// Returns the report of `count`, which `run` has released. `None` if `run` releases no count.
    #[must_use]
    pub fn new(run: &Run, count: &NonFiniteCount) -> Option<Self> {
        let noise_multiplier = run.run_plan().ok()?.events.parts().non_finite?;
        let alone = Event::gaussian(noise_multiplier).ok()?;
        Some(Self {
            released: count.released,
            count: count.whole(),
            samples: count.rows,
            noise_multiplier,
            epsilon: alone.epsilon(run.config.accountant, run.config.delta).ok()?.epsilon,
        })
    }
}

impl fmt::Display for NonFiniteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, noise_multiplier, .. } = self;
        match self.count {
            Some(count) => write!(
                f,
                "about {count} of {samples} training samples have no finite gradient (noise of {noise_multiplier:.1} samples"
            ),
            None => write!(
                f,
                "the number of training samples without a finite gradient was charged and lost by a crash (not released again"
            ),
        }?;
        write!(f, "; epsilon {} alone, part of the run's)", upward(self.epsilon))
    }
}
