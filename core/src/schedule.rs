//! Schedules: functions of the step number only, declared before data is read.

mod clt;
mod constant;
mod declared;
mod factor;
mod learning_rate;
mod noise;

pub use clt::CltNoise;
pub use constant::Constant;
pub use declared::{AnyNoise, Declared};
pub use factor::Noise;
pub use learning_rate::{Decay, LearningRate};
pub use noise::NoiseSchedule;

use crate::error::ConfigError;

/// Declared changes from step to step. A schedule depends only on the step number, so its values are accounted in
/// advance.
///
/// Sealed: a schedule with state, or with access to released values, could choose its noise online. The privacy cost of
/// the declared schedule would not cover that. [`RenyiFilter`](crate::accounting::RenyiFilter) covers it.
///
/// ```compile_fail,E0277
/// use core::cell::Cell;
/// #[derive(Clone, Copy)]
/// struct Online<'a>(&'a Cell<f64>);
/// impl damper_core::schedule::Schedule for Online<'_> {
///     fn learning_rate(&self, _: u32) -> f64 { 0.1 }
///     fn noise_factor(&self, _: u32) -> f64 { self.0.get() }
/// }
/// ```
///
/// ```
/// use damper_core::schedule::{Constant, Schedule};
///
/// fn first(schedule: &impl Schedule) -> (f64, f64) {
///     (schedule.learning_rate(0), schedule.noise_factor(0))
/// }
/// assert_eq!(first(&Constant(0.1)), (0.1, 1.0));
/// assert!(Constant(0.1).check().is_ok());
/// ```
pub trait Schedule: Copy + crate::noise::sealed::Sealed {
    /// Returns the learning rate of step `step`, counted from 0.
    fn learning_rate(&self, step: u32) -> f64;

    /// Returns the factor `α_t` on the mechanism's noise in step `step`.
    fn noise_factor(&self, _step: u32) -> f64 {
        1.0
    }

    /// Returns the fingerprint of everything that the noise of the steps depends on. Returns 0 if the noise never
    /// changes.
    #[doc(hidden)]
    fn noise_fingerprint(&self) -> u64 {
        0
    }

    /// Checks that the settings are in their ranges.
    ///
    /// # Errors
    ///
    /// Fails if a setting is out of its range.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl<S: Schedule> crate::noise::sealed::Sealed for &S {}

/// Implementation for a borrowed schedule, so that a step stores only its address.
impl<S: Schedule> Schedule for &S {
    fn learning_rate(&self, step: u32) -> f64 {
        (**self).learning_rate(step)
    }

    fn noise_factor(&self, step: u32) -> f64 {
        (**self).noise_factor(step)
    }

    fn noise_fingerprint(&self) -> u64 {
        (**self).noise_fingerprint()
    }

    fn check(&self) -> Result<(), ConfigError> {
        (**self).check()
    }
}
