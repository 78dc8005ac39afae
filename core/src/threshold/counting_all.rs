//! A threshold whose histogram also counts the samples whose gradients are not finite.
//!
//! Such a sample adds exactly nothing to the sum, and one to the last bin, where norms above the range are counted. Without this it
//! is counted nowhere. The paper does not say; its digest has both, and counts in the last bin.
//!
//! With it a batch in which many gradients overflow raises the clip (percentile) or the range (expected error), and the noisy number
//! of samples `S'` stays that of the batch. A rule without a histogram is what it was.
//!
//! Source: Wei, Li, Gong, Chen, "DC-SGD: Differentially Private SGD with Dynamic Clipping through Gradient Norm Distribution
//! Estimation", Algorithm 1: every sample of a batch is counted.
//!
//! # Memory
//!
//! One byte beside the counts.
//!
//! # Privacy
//!
//! One sample moves at most one count by one, whatever its gradient, and its gradient's share of the sum is at most the clip or
//! nothing: the price stays what it is.

use super::base::{StepConstants, Threshold};
use crate::count::{AllCounts, CountNoise, Query, ReleasedCounts};

/// The rule `T`, with non-finite samples in the last bin of its histogram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CountingAll<T>(pub T);

impl<const N: usize, T: Threshold<Counts = [i32; N]>> Threshold for CountingAll<T> {
    type State = T::State;
    type Counts = AllCounts<N>;

    fn counts(&self) -> AllCounts<N> {
        AllCounts::new(true)
    }

    fn clip(&self, state: &T::State) -> f32 {
        self.0.clip(state)
    }

    fn query(&self, state: &T::State) -> Query {
        self.0.query(state)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.0.count_noise()
    }

    fn update(&self, state: &mut T::State, released: &ReleasedCounts<'_>, constants: StepConstants) {
        self.0.update(state, released, constants);
    }
}
