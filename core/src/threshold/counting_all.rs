//! A threshold with a histogram that also counts samples with gradients that are not finite.
//!
//! Such a sample adds exactly nothing to the sum, and one to the last bin, together with norms above the range. Without
//! this rule it is not counted. The paper does not specify it.
//!
//! A batch in which many gradients overflow then raises the clip (percentile) or the range (expected error). The noisy
//! number of samples `S'` remains that of the batch. A rule without a histogram is unchanged.
//!
//! Source: Wei, Li, Gong, Chen, "DC-SGD: Differentially Private SGD with Dynamic Clipping through Gradient Norm
//! Distribution Estimation", Algorithm 1: every sample of a batch is counted.
//!
//! # Memory
//!
//! One byte in addition to the counts.
//!
//! # Privacy
//!
//! One sample changes at most one count by one, with any gradient. Its contribution to the sum is at most the clip, or
//! nothing. The privacy cost is therefore unchanged.

use super::base::{StepConstants, Threshold};
use crate::count::{AllCounts, CountNoise, Query, ReleasedCounts};

/// The rule `T`, with samples that are not finite in the last bin of its histogram.
///
/// ```
/// use damper_core::count::CountNoise;
/// use damper_core::threshold::{CountingAll, Percentile, PercentileState, Threshold as _};
///
/// let rule = CountingAll(Percentile::<20>::new(0.8, CountNoise::new(5.0)?)?);
/// assert_eq!(rule.clip(&PercentileState::new(1.0, 2.0)?), 1.0);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
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
