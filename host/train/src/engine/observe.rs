//! Observers of a run's inside: the audit of the mechanism. A run without an observer takes the same path.

use crate::engine::step_loop::StepSum;
use crate::engine::worker::Point;
use damper_core::accounting::SampledGaussian;
use damper_core::count::Query;

/// A step that was charged, drawn and summed, before anything of it is released. As secret as the data.
pub struct Summed<'a> {
    /// Its number.
    pub number: u32,
    /// The event that the core prices.
    pub event: SampledGaussian,
    /// Its clip.
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
    /// Standard deviation of its noise, as the optimizer is told.
    pub noise_std: f64,
    /// The counts; none where nothing is counted.
    pub counts: &'a [f64],
    /// The clip of the next step.
    pub next_clip: f32,
    /// The learned clip, computed from the released counts alone.
    pub learned_clip: f32,
}

/// The release of the features' means and deviations.
pub enum Normalizing<'a> {
    /// It is charged, and comes next.
    Charged,
    /// What is released: noisy means over so many rows.
    Released {
        /// `[2·columns]`.
        means: &'a [f64],
        /// Rows.
        rows: u64,
    },
}

/// The release of the number of rows without a finite gradient.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Counting {
    /// It is charged, and comes next.
    Charged,
    /// What is released.
    Released(f32),
}

/// An observer.
pub trait Observer {
    /// Before the release of a step.
    fn summed(&mut self, step: Summed<'_>);
    /// After it.
    fn given(&mut self, given: Given<'_>);
    /// Around the release of the features' means and deviations.
    fn normalizing(&mut self, _: Normalizing<'_>) {}
    /// Around the release of the number of rows without a finite gradient.
    fn counting(&mut self, _: Counting) {}
    /// After a noisy release of sums over held-out rows.
    fn evaluated(&mut self, _: [f64; 2]) {}
}
