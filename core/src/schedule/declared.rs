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

/// Noise schedule chosen at run time. A program that does not use it links none of the functions of [`CltNoise`].
///
/// ```
/// use damper_core::schedule::{AnyNoise, CltNoise, Decay, LearningRate, Noise as _, NoiseSchedule};
///
/// let rate = LearningRate::new(0.5, 0, Decay::Constant)?;
/// for noise in [AnyNoise::Schedule(NoiseSchedule::Constant), AnyNoise::Clt(CltNoise::new(1.0)?)] {
///     assert_eq!(noise.factor(9, &rate), 1.0);
/// }
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyNoise {
    /// Schedule with an exponent.
    Schedule(NoiseSchedule),
    /// Schedule of the central limit theorem.
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

/// A learning rate and a noise that change over the steps. They are declared together, because the noise may depend on
/// the learning rate.
///
/// ```
/// use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule, Schedule as _};
///
/// let declared = Declared {
///     learning_rate: LearningRate::new(0.5, 0, Decay::Step { every: 1, factor: 0.25 })?,
///     noise: NoiseSchedule::Matched { exponent: 0.5 },
/// };
/// assert_eq!((declared.learning_rate(1), declared.noise_factor(1)), (0.125, 2.0));
/// assert!(declared.check().is_ok());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Declared<N = NoiseSchedule> {
    /// Learning rate.
    pub learning_rate: LearningRate,
    /// Factor on the mechanism's noise.
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
