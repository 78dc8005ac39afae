//! The open step, with its units.

use damper_core::count::Query;
use damper_core::schedule::Noise as _;
use damper_train::{NoiseKind, Run};

/// Samples that are summed and not yet released.
pub(super) struct Open {
    pub(super) number: u32,
    pub(super) clip: f32,
    /// Deviation of the noise that the accountant assumes, in clips.
    pub(super) deviation: f64,
    pub(super) sum: Vec<f64>,
    pub(super) query: Query,
    pub(super) counts: Vec<i32>,
    pub(super) samples: Vec<u32>,
}

impl Open {
    /// Returns the state before the first step.
    pub(super) fn none() -> Self {
        Self { number: 0, clip: 0.0, deviation: 0.0, sum: vec![], query: Query::None, counts: vec![], samples: vec![] }
    }

    /// Returns a unit of the released mean, as a float.
    pub(super) fn unit(&self, run: &Run) -> f64 {
        match run.config.noise {
            NoiseKind::Discrete => {
                let units = (1u32 << run.config.grid_bits) as f32;
                f64::from(self.clip / units / run.config.batch_size as f32)
            }
            NoiseKind::Continuous => 1.0 / f64::from(run.config.batch_size),
        }
    }

    /// Returns the number of clips in a unit of the sum.
    pub(super) fn clips(&self, run: &Run) -> f64 {
        match run.config.noise {
            NoiseKind::Discrete => 1.0 / f64::from(1u32 << run.config.grid_bits),
            NoiseKind::Continuous => 1.0 / f64::from(self.clip),
        }
    }
}

/// Returns the deviation of the noise that the accountant assumes for step `number`, in clips.
pub(in super::super) fn assumed(run: &Run, number: u32) -> f64 {
    let terms = &run.price.terms;
    let factor = terms.noise_schedule.factor(number, &terms.learning_rate);
    match terms.sigma_grid {
        Some(sigma) => (f64::from(sigma) * factor).ceil() / f64::from(1u32 << run.config.grid_bits),
        None => terms.multiplier * factor,
    }
}
