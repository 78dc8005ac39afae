//! Noise of a run's first step. An earlier release must not have the same noise.

use super::seen::assumed;
use damper_train::inside::observe::{Given, Summed};
use damper_train::inside::step_loop::StepSum;
use damper_train::{NoiseKind, Run};

/// Observes the first step of a run.
pub(super) struct FirstStep<'a> {
    run: &'a Run,
    /// The sum before the noise, in its units, and the clip.
    open: Vec<f64>,
    clip: f64,
    /// Noise of each coordinate, in its deviations. Empty before the release.
    pub(super) noise: Vec<f64>,
}

impl<'a> FirstStep<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, open: vec![], clip: 0.0, noise: vec![] }
    }

    pub(super) fn summed(&mut self, step: Summed<'_>) {
        self.clip = f64::from(step.clip);
        self.open = match step.sum {
            StepSum::Grid(words) => words.into_iter().map(|word| word as f64).collect(),
            StepSum::Floats(words) => words.into_iter().map(f64::from).collect(),
        };
    }

    pub(super) fn given(&mut self, given: Given<'_>) {
        if !self.noise.is_empty() {
            return;
        }
        let (batch, deviation) = (f64::from(self.run.config.batch_size), assumed(self.run, 0));
        let clips = match self.run.config.noise {
            NoiseKind::Discrete => 1.0 / f64::from(1u32 << self.run.config.grid_bits),
            NoiseKind::Continuous => 1.0 / self.clip,
        };
        let noise = given.grad.iter().zip(&self.open);
        self.noise =
            noise.map(|(mean, sum)| (f64::from(*mean) * batch / self.clip - sum * clips) / deviation).collect();
    }
}
