//! Trait of thresholds.

use crate::count::{CountNoise, Counts, Query, ReleasedCounts};
use crate::numerics::digest::Digest;

/// Inputs of a threshold other than counts: constants declared in advance.
///
/// ```
/// use damper_core::threshold::StepConstants;
///
/// // Of a step with 650 parameters.
/// let constants = StepConstants { multiplier: 1.1, dim: 650, expected_batch: 60 };
/// assert_eq!(constants.expected_batch, 60);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepConstants {
    /// Multiplier of the gradient's noise at this step, `σ_T`.
    pub multiplier: f64,
    /// Number of parameters, `d`.
    pub dim: usize,
    /// Expected batch, `B`.
    pub expected_batch: u32,
}

/// A rule for the clip of each step.
///
/// ```
/// use damper_core::threshold::Threshold;
///
/// /// A clip that the caller sets from released values.
/// #[derive(Clone)]
/// struct Given;
/// impl Threshold for Given {
///     type State = f32;
///     type Counts = [i32; 0];
///     fn clip(&self, state: &f32) -> f32 {
///         *state
///     }
/// }
///
/// assert_eq!((Given.clip(&0.5), Given.fixed_clip()), (0.5, 0.0));
/// assert!(Given.query(&0.5).is_empty() && Given.count_noise().is_none());
/// ```
pub trait Threshold: Clone {
    /// State of the rule.
    type State;

    /// Memory for its counts: `[i32; N]`, with `N = 0` for a rule without counts.
    type Counts: Counts;

    /// Returns the counts at the beginning of a step.
    fn counts(&self) -> Self::Counts {
        Self::Counts::ZERO
    }

    /// Returns the clip of the coming step.
    fn clip(&self, state: &Self::State) -> f32;

    /// Returns the counts to take in the coming step.
    fn query(&self, _state: &Self::State) -> Query {
        Query::None
    }

    /// Returns the noise of the counts, the same at every step. Returns `None` for a rule without counts, and then
    /// nothing is counted.
    fn count_noise(&self) -> Option<CountNoise> {
        None
    }

    /// Updates the state from the counts released at a step.
    fn update(&self, _state: &mut Self::State, _released: &ReleasedCounts<'_>, _facts: StepConstants) {}

    /// Returns the clip if it never changes, else 0. A charge includes a fixed clip. A clip from released counts may
    /// have any value after a restart.
    fn fixed_clip(&self) -> f32 {
        0.0
    }

    /// Returns a digest that compares two runs: the clip of the coming step, and the range of its histogram or 0.
    ///
    /// ```
    /// use damper_core::numerics::digest::Digest;
    /// use damper_core::threshold::{Fixed, Threshold as _};
    ///
    /// assert_eq!(Fixed(0.5).counts(), [0; 0]);
    /// assert_eq!(Fixed(0.5).digest(&()), Digest::of(&[0.5, 0.0]));
    /// ```
    fn digest(&self, state: &Self::State) -> Digest {
        let range = match self.query(state) {
            Query::Histogram { range, .. } => range,
            Query::None | Query::Above { .. } => 0.0,
        };
        Digest::of(&[self.clip(state), range])
    }
}
