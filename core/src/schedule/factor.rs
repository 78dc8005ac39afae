//! The trait of noise schedules.

use super::LearningRate;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// The noise of each step beside the mechanism's own, by the step's number and the learning rates. Sealed, as [`Schedule`](super::Schedule) is.
pub trait Noise: Copy + Sealed {
    /// `α_t` of step `step`, counted from 0.
    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64;

    /// The fingerprint of all that the factors depend on; 0 if they are 1.
    #[doc(hidden)]
    fn fingerprint(&self, learning_rate: &LearningRate) -> u64;

    /// Fails unless its numbers are in their ranges.
    ///
    /// # Errors
    ///
    /// One is not.
    fn check(&self) -> Result<(), ConfigError>;
}
