//! A constant learning rate and constant noise.
//!
//! # Memory
//!
//! None. It links none of the functions of other schedules, which take kilobytes on a device without an FPU for f64.

use super::Schedule;
use crate::noise::sealed::Sealed;

/// The same learning rate at every step, and the mechanism's own noise.
///
/// ```
/// use damper_core::schedule::{Constant, Schedule as _};
///
/// assert_eq!((Constant(0.1).learning_rate(7), Constant(0.1).noise_factor(7)), (0.1, 1.0));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constant(pub f64);

impl Sealed for Constant {}

impl Schedule for Constant {
    fn learning_rate(&self, _step: u32) -> f64 {
        self.0
    }
}
