//! Observers of a run's internal state, for the audit of the mechanism. A run without an observer takes the same path.

use crate::engine::step_loop::StepSum;
use crate::engine::worker::Point;
use damper_core::accounting::SampledGaussian;
use damper_core::count::Query;

/// A step after charge, draw and sum, but before its release. It is as secret as the data.
pub struct Summed<'a> {
    /// The number of the step.
    pub number: u32,
    /// The event that the core accounts.
    pub event: SampledGaussian,
    /// The clip of the step.
    pub clip: f32,
    /// The samples drawn.
    pub samples: &'a [u32],
    /// The points at which the gradients were taken.
    pub points: &'a [Point],
    /// The clipped sum.
    pub sum: StepSum,
    /// The threshold's query that the samples were counted for.
    pub query: Query,
    /// The counts, without noise.
    pub counts: &'a [i32],
}

/// The release of a step.
pub struct Given<'a> {
    /// The gradient, before any filter.
    pub grad: &'a [f32],
    /// Standard deviation of its noise, as passed to the optimizer.
    pub noise_std: f64,
    /// The noisy counts. Empty if nothing is counted.
    pub counts: &'a [f64],
    /// The clip of the next step.
    pub next_clip: f32,
    /// The learned clip, computed from the released counts alone.
    pub learned_clip: f32,
}

/// The release of the features' means and deviations.
pub enum Normalizing<'a> {
    /// The release is charged and follows.
    Charged,
    /// The released values: noisy means over this many rows.
    Released {
        /// `[2·columns]`.
        means: &'a [f64],
        /// Number of rows.
        rows: u64,
    },
}

/// The release of the number of rows without a finite gradient.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Counting {
    /// The release is charged and follows.
    Charged,
    /// The released value.
    Released(f32),
}

/// An observer of a run.
pub trait Observer {
    /// Called before the release of a step.
    fn summed(&mut self, step: Summed<'_>);
    /// Called after the release of a step.
    fn given(&mut self, given: Given<'_>);
    /// Called before and after the release of the features' means and deviations.
    fn normalizing(&mut self, _: Normalizing<'_>) {}
    /// Called before and after the release of the number of rows without a finite gradient.
    fn counting(&mut self, _: Counting) {}
    /// Called after a noisy release of sums over held-out rows.
    fn evaluated(&mut self, _: [f64; 2]) {}
}
