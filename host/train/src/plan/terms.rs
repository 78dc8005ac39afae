//! The terms of a run (rate, steps and noise), and the ε that follows from them.

use crate::plan::held_out::PrivateMetrics;
use damper_accounting::{CorrelatedRun, Plan, Truncation};
use damper_core::accounting::Rate;
use damper_core::schedule::{AnyNoise, LearningRate};
use damper_core::threshold::CountNoise;

/// Rate, steps and noise. They follow from the configuration and the number of samples alone.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The exact share of the samples that a step expects. With Poisson sampling it is the sampling rate.
    pub rate: Rate,
    /// The sampling rate of an accounted event: the rate of a draw, or 1 for samplers without a Bernoulli trial per
    /// sample.
    pub event_rate: Rate,
    /// Steps of one event.
    pub steps_per_event: u32,
    /// Correlated noise, if the noise of steps is not independent.
    pub correlated: Option<CorrelatedRun>,
    /// The truncation of large batches, if requested.
    pub truncation: Option<Truncation>,
    /// Number of steps.
    pub steps: u32,
    /// The learning rate of each step.
    pub learning_rate: LearningRate,
    /// The noise of each step, relative to the mechanism's noise.
    pub noise_schedule: AnyNoise,
    /// The noise multiplier of the gradient that the run uses, before a noise schedule scales it. For correlated noise
    /// it is that of its event.
    pub multiplier: f64,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// The noise of the counts that each step releases next to its gradient.
    pub count_noise: Option<CountNoise>,
}

/// The privacy cost of a run, and the terms that determine it.
#[derive(Clone, Debug)]
pub struct Price {
    /// The terms that determine it.
    pub terms: Terms,
    /// Every draw with its noise. The accountant counts exactly what the run releases. `None` if the run is not
    /// private.
    pub plan: Option<Plan>,
    /// The δ of the plan's ε, which is the claimed δ less the share for truncation.
    pub plan_delta: f64,
    /// The noise of private metrics, if requested and if there are held-out rows.
    pub private_metrics: Option<PrivateMetrics>,
    /// ε of all steps, or of private metrics if that is larger. Infinite if the run is not private.
    pub epsilon: f64,
    /// The Rényi order that gave ε. `None` if it came from privacy loss distributions.
    pub order: Option<f64>,
}
