//! A learning rate and a noise that change over the steps.
//!
//! # Memory
//!
//! None.

use super::{LearningRate, NoiseSchedule, Schedule};
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;

/// A learning rate and a noise that change over the steps, declared together since one may be matched to the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Declared {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The noise beside the mechanism's own.
    pub noise: NoiseSchedule,
}

impl Sealed for Declared {}

impl Schedule for Declared {
    fn learning_rate(&self, step: u32) -> f64 {
        self.learning_rate.at(step)
    }

    fn noise_factor(&self, step: u32) -> f64 {
        self.noise.factor(step, &self.learning_rate)
    }

    #[inline]
    fn check(&self) -> Result<(), ConfigError> {
        self.noise.check()
    }
}
