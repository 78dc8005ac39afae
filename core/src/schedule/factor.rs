//! The trait of noise schedules.

use super::LearningRate;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

/// The noise of each step beside the mechanism's own, by the step's number and the learning rates. Sealed, as [`Schedule`](super::Schedule) is.
pub trait Noise: Copy + Sealed {
    /// `α_t` of step `step`, counted from 0.
    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64;

    /// Adds all that the factors depend on; nothing if they are 1.
    #[doc(hidden)]
    fn add_to(&self, learning_rate: &LearningRate, digest: &mut Digest);

    /// Fails unless its numbers are in their ranges.
    ///
    /// # Errors
    ///
    /// One is not.
    fn check(&self) -> Result<(), ConfigError>;
}
