//! Schedules: functions of the step's number alone, declared before data is read.

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

/// Declared changes from step to step. A function of the step's number, so its values are accounted in advance.
///
/// Sealed: a schedule that remembers, or is told what was released, would choose its noise online past the price of what was
/// declared. For that there is [`RenyiFilter`](crate::accounting::RenyiFilter).
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
pub trait Schedule: Copy + crate::noise::sealed::Sealed {
    /// The learning rate of step `step`, counted from 0.
    fn learning_rate(&self, step: u32) -> f64;

    /// The noise of step `step` beside the mechanism's own, `α_t`.
    fn noise_factor(&self, _step: u32) -> f64 {
        1.0
    }

    /// The fingerprint of all that the noise of the steps depends on; 0 if it never changes.
    #[doc(hidden)]
    fn noise_fingerprint(&self) -> u64 {
        0
    }

    /// Fails unless the schedule's numbers are in their ranges.
    ///
    /// # Errors
    ///
    /// One is not.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl<S: Schedule> crate::noise::sealed::Sealed for &S {}

/// A schedule that is lent: a step holds its address.
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
