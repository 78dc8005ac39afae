//! A learning rate and a noise that change over the steps.
//!
//! # Memory
//!
//! None.

use super::factor::Noise;
use super::{CltNoise, LearningRate, NoiseSchedule, Schedule};
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

impl Sealed for NoiseSchedule {}

impl Noise for NoiseSchedule {
    #[inline]
    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64 {
        Self::factor(self, step, learning_rate)
    }

    #[inline]
    fn fingerprint(&self, learning_rate: &LearningRate) -> u64 {
        let mut digest = Digest::default();
        match *self {
            Self::Constant => return 0,
            Self::Matched { exponent } => {
                let [base, kind, first, second] = learning_rate.words();
                digest.add_words([1, exponent.to_bits(), base, kind, first, second]);
            }
            Self::Polynomial { growth, exponent } => digest.add_words([2, growth.to_bits(), exponent.to_bits()]),
        }
        digest.value()
    }

    #[inline]
    fn check(&self) -> Result<(), ConfigError> {
        Self::check(self)
    }
}

/// A noise schedule that is chosen when a program runs. A program that does not name it has none of what [`CltNoise`] takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyNoise {
    /// By an exponent.
    Schedule(NoiseSchedule),
    /// By the central limit theorem.
    Clt(CltNoise),
}

impl Sealed for AnyNoise {}

impl Noise for AnyNoise {
    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64 {
        match self {
            Self::Schedule(noise) => noise.factor(step, learning_rate),
            Self::Clt(noise) => noise.factor(step, learning_rate),
        }
    }

    fn fingerprint(&self, learning_rate: &LearningRate) -> u64 {
        match self {
            Self::Schedule(noise) => noise.fingerprint(learning_rate),
            Self::Clt(noise) => noise.fingerprint(learning_rate),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Schedule(noise) => noise.check(),
            Self::Clt(noise) => noise.check(),
        }
    }
}

/// A learning rate and a noise that change over the steps, declared together since one may be matched to the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Declared<N = NoiseSchedule> {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The noise beside the mechanism's own.
    pub noise: N,
}

impl<N> Sealed for Declared<N> {}

impl<N: Noise> Schedule for Declared<N> {
    fn learning_rate(&self, step: u32) -> f64 {
        self.learning_rate.at(step)
    }

    fn noise_factor(&self, step: u32) -> f64 {
        self.noise.factor(step, &self.learning_rate)
    }

    #[inline]
    fn noise_fingerprint(&self) -> u64 {
        self.noise.fingerprint(&self.learning_rate)
    }

    #[inline]
    fn check(&self) -> Result<(), ConfigError> {
        self.noise.check()
    }
}
