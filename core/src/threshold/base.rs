//! The trait of thresholds.

use crate::count::{CountNoise, Counts, Query, ReleasedCounts};
use crate::numerics::digest::Digest;

/// Inputs of a threshold other than counts: constants declared in advance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepConstants {
    /// The multiplier of the gradient's noise at this step, `σ_T`.
    pub multiplier: f64,
    /// Number of parameters, `d`.
    pub dim: usize,
    /// `B`.
    pub expected_batch: u32,
}

/// A rule for the clip.
pub trait Threshold: Clone {
    /// The rule's state.
    type State;

    /// Memory for its counts: `[i32; N]`, `N = 0` for a rule that counts nothing.
    type Counts: Counts;

    /// The counts at the beginning of a step.
    fn counts(&self) -> Self::Counts {
        Self::Counts::ZERO
    }

    /// The clip of the coming step.
    fn clip(&self, state: &Self::State) -> f32;

    /// Returns the counts to take in the coming step.
    fn query(&self, _state: &Self::State) -> Query {
        Query::None
    }

    /// The noise of the counts, the same at every step; `None` for a rule that counts nothing. Without it nothing is counted.
    fn count_noise(&self) -> Option<CountNoise> {
        None
    }

    /// Learns from the counts released at a step.
    fn update(&self, _state: &mut Self::State, _released: &ReleasedCounts<'_>, _facts: StepConstants) {}

    /// Returns the clip if it never changes, else 0. A charge stands for that one; a clip that follows released counts may begin anywhere
    /// after a restart.
    fn fixed_clip(&self) -> f32 {
        0.0
    }

    /// Returns the values that two runs are compared by: the clip of the coming step and its histogram's range, 0 without one.
    fn digest(&self, state: &Self::State) -> Digest {
        let range = match self.query(state) {
            Query::Histogram { range, .. } => range,
            Query::None | Query::Above { .. } => 0.0,
        };
        Digest::of(&[self.clip(state), range])
    }
}
