//! ADP's noise schedules: the noise of step `t` is `α_t` times the base.
//!
//! | schedule | `α_t` |
//! | --- | --- |
//! | constant | 1: DP-SGD |
//! | matched to the learning rate | `(η_0/η_t)^p`; with `η_t = η/b_t` the paper's `α_t² ∝ b_t` is `p = ½` |
//! | polynomial | `(1 + g·t)^(p/2)`; with `g = 1`, `α_t² ∝ (1+t)^p` |
//!
//! With `p = ½` and `g = C/b_0²`, the polynomial schedule is the surrogate of AdaGrad-norm.
//!
//! Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially Private Empirical Risk Minimization", §4, §5. Only
//! the shape matters, because the base is calibrated for the whole schedule. At practical ε, the exponent ¼ is the
//! safer choice. The subsampled Gaussian has a higher privacy cost for an uneven schedule than for an even schedule of
//! the same `Σ 1/α²`.
//!
//! # Memory
//!
//! None.
//!
//! # Numerics
//!
//! All arithmetic is in f64, with powers in the bits of `libm`. The factor is `(η_0/η_t)` to the power `p`, or
//! `1 + (g·t)` to the power `p/2`. It is limited to the range from `1/10⁹` to 10⁹, and an undefined factor becomes the
//! lower limit. The σ of step `t` is `⌈σ·α_t⌉` grid units, at least 1, with the product in f64. If `α_t = 1`, it is σ
//! itself.
//!
//! # Privacy
//!
//! The schedule is declared before data is read and depends only on the step number. Ordinary composition therefore
//! accounts for it, step by step. A multiplier chosen from releases needs [`crate::accounting::RenyiFilter`].

use super::LearningRate;
use crate::error::ConfigError;
use crate::numerics::order::{is_above_zero, is_at_most};
use crate::numerics::scalar::{pow, sqrt};
use crate::record::{RecordSink, RecordSource};

/// Schedule of the noise over the steps.
///
/// ```
/// use damper_core::schedule::{Decay, LearningRate, NoiseSchedule};
///
/// let rate = LearningRate::new(0.5, 0, Decay::Step { every: 1, factor: 0.25 })?;
/// // The learning rate of step 1 is a quarter of the first.
/// assert_eq!(NoiseSchedule::Matched { exponent: 0.5 }.factor(1, &rate), 2.0);
/// assert_eq!(NoiseSchedule::Polynomial { growth: 1.0, exponent: 1.0 }.factor(3, &rate), 2.0);
/// assert!(NoiseSchedule::Matched { exponent: 5.0 }.check().is_err());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NoiseSchedule {
    /// `α_t = 1`.
    Constant,
    /// `α_t = (η_0/η_t)^exponent`.
    Matched {
        /// `p`, from 0 to 4.
        exponent: f64,
    },
    /// `α_t = (1 + growth·t)^(exponent/2)`.
    Polynomial {
        /// `g`, at least 0.
        growth: f64,
        /// `p`, from 0 to 4.
        exponent: f64,
    },
}

/// Returns the value of [`pow`] for an exponent of one half.
fn root(x: f64, _half: f64) -> f64 {
    sqrt(x)
}

/// Upper limit of the factors. Its reciprocal is the lower limit.
const LARGEST: f64 = 1e9;

impl NoiseSchedule {
    /// Writes the schedule in the format of recordings.
    ///
    /// ```
    /// use damper_core::record::RecordSink;
    /// use damper_core::schedule::NoiseSchedule;
    ///
    /// struct Bytes(Vec<u8>);
    /// impl RecordSink for Bytes {
    ///     fn put(&mut self, bytes: &[u8]) {
    ///         self.0.extend(bytes);
    ///     }
    /// }
    ///
    /// let mut bytes = Bytes(vec![]);
    /// NoiseSchedule::Matched { exponent: 0.5 }.write(&mut bytes);
    /// assert_eq!(bytes.0, [&[1], &0.5f64.to_le_bytes()[..]].concat());
    /// ```
    pub fn write(&self, sink: &mut dyn RecordSink) {
        match *self {
            Self::Constant => sink.u8(0),
            Self::Matched { exponent } => {
                sink.u8(1);
                sink.f64(exponent);
            }
            Self::Polynomial { growth, exponent } => {
                sink.u8(2);
                sink.f64(growth);
                sink.f64(exponent);
            }
        }
    }

    /// Reads a schedule.
    ///
    /// # Errors
    ///
    /// Fails if the schedule is unknown. [`NoiseSchedule::check`] checks its settings.
    pub fn read<R: RecordSource>(source: &mut R) -> Result<Self, R::Error> {
        Ok(match source.u8() {
            0 => Self::Constant,
            1 => Self::Matched { exponent: source.f64() },
            2 => Self::Polynomial { growth: source.f64(), exponent: source.f64() },
            _ => return Err(R::wrong("kind of noise schedule")),
        })
    }

    /// Checks that the settings are in their ranges.
    ///
    /// # Errors
    ///
    /// Fails if an exponent is outside `0..=4`, or a growth is negative or not finite.
    #[inline]
    pub fn check(&self) -> Result<(), ConfigError> {
        let (growth, exponent) = match *self {
            Self::Constant => (0.0, 0.0),
            Self::Matched { exponent } => (0.0, exponent),
            Self::Polynomial { growth, exponent } => (growth, exponent),
        };
        if is_above_zero(-exponent) || !is_at_most(exponent, 4.0) {
            return Err(ConfigError::new("exponent of the noise schedule", "from 0 to 4"));
        }
        if is_above_zero(-growth) || !is_at_most(growth, f64::MAX) {
            return Err(ConfigError::new("growth of the noise schedule", "finite and not negative"));
        }
        Ok(())
    }

    /// Returns `α_t` of step `step`, counted from 0, for this learning rate. Between 10⁻⁹ and 10⁹.
    #[must_use]
    pub fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64 {
        self.by(pow, |step| learning_rate.at(step), step)
    }

    /// Returns the power function of the schedule. If the exponent is a compile-time constant for a square root, the
    /// program links no other power.
    #[inline(always)]
    pub(crate) fn power(&self) -> fn(f64, f64) -> f64 {
        match *self {
            Self::Constant => root,
            Self::Matched { exponent: 0.5 } | Self::Polynomial { exponent: 1.0, .. } => root,
            Self::Matched { .. } | Self::Polynomial { .. } => pow,
        }
    }

    /// Returns the factor, by its [power](Self::power) and these learning rates.
    #[inline]
    pub(crate) fn by(&self, power: fn(f64, f64) -> f64, rate: impl Fn(u32) -> f64, step: u32) -> f64 {
        let factor = match *self {
            Self::Constant => return 1.0,
            Self::Matched { exponent } => power(rate(0) / rate(step), exponent),
            Self::Polynomial { growth, exponent } => power(1.0 + growth * f64::from(step), exponent / 2.0),
        };
        // A learning rate of 0 gives an infinite factor, and 0/0 is undefined.
        if factor > LARGEST {
            LARGEST
        } else if factor > 1.0 / LARGEST {
            factor
        } else {
            1.0 / LARGEST
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Decay;

    #[test]
    fn factors_follow_their_formulas() {
        let decay = Decay::Polynomial { offset: 20.0, slope: 1.0 };
        let lr = LearningRate::new(1.0, 0, decay).unwrap();
        let matched = NoiseSchedule::Matched { exponent: 0.5 };
        for t in [0, 1, 17, 11759] {
            let exact = (20.0 + f64::from(t)).sqrt().sqrt() / 20f64.sqrt().sqrt();
            assert!((matched.factor(t, &lr) - exact).abs() < 1e-14 * exact);
            // The surrogate of AdaGrad-norm with b_0² = 20, C = 1 has the same shape.
            let surrogate = NoiseSchedule::Polynomial { growth: 1.0 / 20.0, exponent: 0.5 };
            assert!((surrogate.factor(t, &lr) - exact).abs() < 1e-14 * exact);
        }
    }

    /// With α² = 1/η, the noise that reaches the parameters at step t is √η_t times the base.
    #[test]
    fn matched_noise_scales_as_sqrt_lr() {
        let lr = LearningRate::new(0.7, 0, Decay::Polynomial { offset: 3.0, slope: 0.5 }).unwrap();
        let matched = NoiseSchedule::Matched { exponent: 0.5 };
        for t in [0, 5, 1000] {
            let reaches = lr.at(t) * matched.factor(t, &lr);
            let expected = lr.at(t).sqrt() * lr.at(0).sqrt();
            assert!((reaches / expected - 1.0).abs() < 1e-14);
        }
    }

    /// `M(α, b) = Σ(α/b)²·Σ1/α²` has its minimum `(Σ1/b)²` at `α² ∝ b`, and the paper's ratios to α = 1.
    #[test]
    fn matched_noise_minimises_the_papers_bound() {
        for (steps, ratio) in [(11760u32, 1.727), (23520, 1.869), (39200, 1.978)] {
            // The paper counts its 20 + t from t = 1.
            let lr = LearningRate::new(1.0, 0, Decay::Polynomial { offset: 21.0, slope: 1.0 }).unwrap();
            let bound = |schedule: NoiseSchedule| {
                let (mut noise, mut price) = (0.0, 0.0);
                for t in 0..steps {
                    let alpha = schedule.factor(t, &lr);
                    noise += (alpha * lr.at(t)).powi(2);
                    price += 1.0 / (alpha * alpha);
                }
                noise * price
            };
            let least = (0..steps).map(|t| lr.at(t)).sum::<f64>().powi(2);
            let matched = bound(NoiseSchedule::Matched { exponent: 0.5 });
            assert!((matched / least - 1.0).abs() < 1e-9);
            for exponent in [0.25, 0.45, 0.55, 1.0] {
                assert!(bound(NoiseSchedule::Matched { exponent }) > matched);
            }
            assert!((bound(NoiseSchedule::Constant) / matched - ratio).abs() < 1e-3);
        }
    }

    // An invalid schedule is an error, and factors never exceed the limit.
    #[test]
    fn invalid_schedule_is_error() {
        for exponent in [-0.1, 4.1, f64::NAN] {
            assert!(NoiseSchedule::Matched { exponent }.check().is_err());
        }
        assert!(NoiseSchedule::Polynomial { growth: -1.0, exponent: 0.5 }.check().is_err());
        let falls = LearningRate::new(1.0, 0, Decay::RootLinear { steps: 10, floor: 0.0 }).unwrap();
        let matched = NoiseSchedule::Matched { exponent: 4.0 };
        assert!(matched.check().is_ok() && matched.factor(10, &falls) == LARGEST);
    }
}
