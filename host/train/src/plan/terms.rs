//! The terms of a run: rate, steps and noise, from which its ε follows.

use damper_accounting::{CorrelatedRun, Truncation};
use damper_core::accounting::Rate;
use damper_core::schedule::{AnyNoise, LearningRate};
use damper_core::threshold::CountNoise;

/// Rate, steps and noise. They follow from the configuration and the number of samples alone.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The share of the samples that a step expects, exactly: the sampling rate of Poisson draws.
    pub rate: Rate,
    /// The rate of an event: that of a draw, and 1 where a sample has no coin.
    pub event_rate: Rate,
    /// Steps of one event.
    pub steps_per_event: u32,
    /// Correlated noise, if the noise of steps is not independent.
    pub correlated: Option<CorrelatedRun>,
    /// At which size draws are cut, where they are.
    pub truncation: Option<Truncation>,
    /// Number of steps.
    pub steps: u32,
    /// The learning rate of each step.
    pub learning_rate: LearningRate,
    /// The noise of each step beside the mechanism's own.
    pub noise_schedule: AnyNoise,
    /// The multiplier of the gradient's noise that runs, before a noise schedule scales it. Of correlated noise that of its event.
    pub multiplier: f64,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// The noise of counts that each step releases beside its gradient.
    pub count_noise: Option<CountNoise>,
}
