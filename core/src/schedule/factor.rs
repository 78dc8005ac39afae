//! Trait of noise schedules.

use super::LearningRate;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// Factor on the mechanism's noise at each step, from the step number and the learning rates. Sealed, as
/// [`Schedule`](super::Schedule) is.
///
/// ```
/// use damper_core::schedule::{Decay, LearningRate, Noise, NoiseSchedule};
///
/// let rate = LearningRate::new(0.5, 0, Decay::Constant)?;
/// assert_eq!(Noise::factor(&NoiseSchedule::Constant, 3, &rate), 1.0);
/// assert!(Noise::check(&NoiseSchedule::Constant).is_ok());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait Noise: Copy + Sealed {
    /// Returns `α_t` of step `step`, counted from 0.
    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64;

    /// Returns the fingerprint of everything that the factors depend on, or 0 if all factors are 1.
    #[doc(hidden)]
    fn fingerprint(&self, learning_rate: &LearningRate) -> u64;

    /// Checks that the settings are in their ranges.
    ///
    /// # Errors
    ///
    /// Fails if a setting is out of its range.
    fn check(&self) -> Result<(), ConfigError>;
}
