//! The terms of a run, rate, steps and noise, and the ε that follows from them.

use crate::plan::held_out::PrivateMetrics;
use damper_accounting::{CorrelatedRun, Plan, Truncation};
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

/// The privacy cost of a run, and what it follows from.
#[derive(Clone, Debug)]
pub struct Price {
    /// The terms that determine it.
    pub terms: Terms,
    /// Every draw with its noise: what the accountant counts is what runs. None if the run is not private.
    pub plan: Option<Plan>,
    /// The δ of the plan's ε: what truncation leaves of the δ claimed.
    pub plan_delta: f64,
    /// The noise of private metrics, if they are asked for and there are held-out rows.
    pub private_metrics: Option<PrivateMetrics>,
    /// ε of all steps, or of private metrics, if that is larger. Infinite if the run is not private.
    pub epsilon: f64,
    /// The Rényi order that gave it. None if privacy loss distributions did.
    pub order: Option<f64>,
}
