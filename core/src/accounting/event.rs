//! Accounting event of a step: the releases from one Poisson batch. An accountant composes events, one for each batch.

use crate::error::ConfigError;
use crate::numerics::up::{add_up, div_up, mul_up, next_down, sqrt_up};

const RATE: ConfigError = ConfigError { parameter: "sampling rate", must_be: "a number from 0 to 1" };
const BATCH: ConfigError =
    ConfigError { parameter: "expected_batch", must_be: "at most the number of samples, which must not be 0" };
const MULTIPLIER: ConfigError = ConfigError { parameter: "noise multiplier", must_be: "finite and above 0" };

/// A sampling rate: exactly `numerator / 2^53`. Sampling and accounting both use this rational number.
///
/// ```
/// use damper_core::accounting::Rate;
///
/// let rate = Rate::of(60, 1797)?;
/// assert!(rate.as_f64() <= 60.0 / 1797.0);
/// assert_eq!(rate.complement().complement(), rate);
/// // 0.1 of a float is not a multiple of 2⁻⁵³.
/// assert_eq!(Rate::at_least(0.1)?.numerator(), Rate::at_most(0.1)?.numerator() + 1);
/// assert_eq!(Rate::from_numerator(Rate::DENOMINATOR)?, Rate::ONE);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rate {
    numerator: u64,
}

impl Rate {
    /// Common denominator, 2^53. Every numerator is exact in an `f64`.
    pub const DENOMINATOR: u64 = 1 << 53;
    /// Every sample is in every batch: no amplification by sampling.
    pub const ONE: Self = Self { numerator: Self::DENOMINATOR };
    /// No sample is in any batch.
    pub const ZERO: Self = Self { numerator: 0 };

    /// Creates the rate `numerator / 2^53`. Fails above 1.
    pub const fn from_numerator(numerator: u64) -> Result<Self, ConfigError> {
        if numerator > Self::DENOMINATOR { Err(RATE) } else { Ok(Self { numerator }) }
    }

    /// Returns the largest rate that is at most `q`. Fails unless `0 ≤ q ≤ 1`.
    pub fn at_most(q: f64) -> Result<Self, ConfigError> {
        if (0.0..=1.0).contains(&q) {
            // Scaling by a power of two is exact, and the cast truncates.
            Ok(Self { numerator: (q * Self::DENOMINATOR as f64) as u64 })
        } else {
            Err(RATE)
        }
    }

    /// Returns the smallest rate that is at least `q`, to account for sampling by other code. Fails unless `0 ≤ q ≤ 1`.
    pub fn at_least(q: f64) -> Result<Self, ConfigError> {
        let below = Self::at_most(q)?;
        let exact = below.as_f64() == q;
        Ok(Self { numerator: below.numerator + !exact as u64 })
    }

    /// Returns the largest rate that is at most `expected_batch / dataset_size`, in integer arithmetic.
    pub const fn of(expected_batch: u64, dataset_size: u64) -> Result<Self, ConfigError> {
        if dataset_size == 0 || expected_batch > dataset_size {
            return Err(BATCH);
        }
        let scaled = (expected_batch as u128) << 53;
        Ok(Self { numerator: (scaled / dataset_size as u128) as u64 })
    }

    /// Returns `k` of `k / 2^53`.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Returns the rate as a number, exactly.
    pub const fn as_f64(self) -> f64 {
        self.numerator as f64 / Self::DENOMINATOR as f64
    }

    /// Returns `1 − q`, exactly.
    pub const fn complement(self) -> Self {
        Self {
            // Never wraps: the numerator is at most the denominator.
            numerator: Self::DENOMINATOR.wrapping_sub(self.numerator),
        }
    }
}

/// The sampled Gaussian mechanism: one Poisson batch and all its releases, as one Gaussian release of sensitivity 1.
/// Mironov, Talwar and Zhang (2019) bound its Rényi divergence.
///
/// Neighbours: one sample is replaced by a null sample that contributes nothing, so the sum changes by at most the
/// clip.
///
/// ```
/// use damper_core::accounting::{Rate, SampledGaussian};
///
/// // A sum of gradients and a histogram from one batch, each with a multiplier of 1.
/// let event = SampledGaussian::new(Rate::of(60, 1797)?, 1.0)?.and(1.0)?;
/// assert!((event.multiplier() - 0.5f64.sqrt()).abs() < 1e-15);
/// assert_eq!(event.rate(), Rate::of(60, 1797)?);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SampledGaussian {
    rate: Rate,
    multiplier: f64,
}

impl SampledGaussian {
    /// Creates the event of a batch at `rate` and one released sum with noise of `multiplier` times the clip.
    pub fn new(rate: Rate, multiplier: f64) -> Result<Self, ConfigError> {
        if multiplier > 0.0 && multiplier.is_finite() { Ok(Self { rate, multiplier }) } else { Err(MULTIPLIER) }
    }

    /// Adds another release from the same batch, such as a histogram of norms. `1/σ² = 1/σ₁² + 1/σ₂²`, with σ rounded
    /// down, which overstates the privacy loss.
    ///
    /// In units of their own σ, the shifts of two Gaussian releases combine in the product space. The joint shift is
    /// the root of the sum of squares.
    pub fn and(self, multiplier: f64) -> Result<Self, ConfigError> {
        let other = Self::new(self.rate, multiplier)?.multiplier;
        let (small, large) = if other < self.multiplier { (other, self.multiplier) } else { (self.multiplier, other) };
        let ratio = div_up(small, large);
        let shrink = sqrt_up(add_up(1.0, mul_up(ratio, ratio)));
        Self::new(self.rate, next_down(small / shrink))
    }

    /// Returns the sampling rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the noise multiplier: σ divided by the sensitivity.
    pub const fn multiplier(&self) -> f64 {
        self.multiplier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // `of` and `at_most` round a sampling rate down to a multiple of 2^-53. `at_least` rounds it up.
    #[test]
    fn sampling_rate_rounds_down() {
        for (batch, size) in [(1, 3), (64, 1797), (256, 60_000), (u64::MAX - 1, u64::MAX), (1, u64::MAX)] {
            let k = u128::from(Rate::of(batch, size).unwrap().numerator());
            assert!(k * u128::from(size) <= u128::from(batch) << 53);
            assert!((k + 1) * u128::from(size) > u128::from(batch) << 53);
        }
        assert_eq!(Rate::of(7, 7).unwrap(), Rate::ONE);
        assert_eq!(Rate::at_most(0.25).unwrap(), Rate::of(1, 4).unwrap());
        assert_eq!(Rate::at_most(1e-300).unwrap(), Rate::ZERO);
        assert_eq!(Rate::at_least(1e-300).unwrap().numerator(), 1);
        for q in [0.0, 0.01, 0.1, 0.25, 0.7, 1.0 - f64::EPSILON / 2.0, 1.0] {
            let (below, above) = (Rate::at_most(q).unwrap(), Rate::at_least(q).unwrap());
            assert!(below.as_f64() <= q && q <= above.as_f64());
            assert_eq!(above.numerator() - below.numerator(), u64::from(below.as_f64() != q));
        }
        assert_eq!(Rate::from_numerator(3).unwrap().as_f64(), 3.0 / 9007199254740992.0);
    }

    #[test]
    fn invalid_parameter_error_names_it() {
        for q in [-0.1, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::at_most(q).unwrap_err().parameter, "sampling rate");
            assert!(Rate::at_least(q).is_err());
        }
        assert!(Rate::from_numerator(Rate::DENOMINATOR + 1).is_err());
        assert_eq!(Rate::of(8, 7).unwrap_err().parameter, "expected_batch");
        assert!(Rate::of(0, 0).is_err());
        for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(SampledGaussian::new(Rate::ONE, sigma).unwrap_err().parameter, "noise multiplier");
            assert!(SampledGaussian::new(Rate::ONE, 1.0).unwrap().and(sigma).is_err());
        }
    }

    // A joint release adds the inverse variances. Its multiplier is never too large.
    #[test]
    fn joint_multiplier_never_rounds_up() {
        for (a, b) in [(1.0, 1.0), (0.7, 20.0), (3.0, 4.0), (1e-150, 1e150), (5e-324, 5e-324)] {
            let Ok(joint) = SampledGaussian::new(Rate::ONE, a).unwrap().and(b) else {
                assert!(a < 1e-300, "only an underflow may be refused");
                continue;
            };
            let exact = 1.0 / libm::sqrt(1.0 / (a * a) + 1.0 / (b * b));
            if exact.is_normal() {
                assert!(joint.multiplier() <= exact * (1.0 + 1e-15) && joint.multiplier() >= exact * (1.0 - 2e-15));
            }
            assert!(joint.multiplier() < a.min(b));
        }
        let joint = SampledGaussian::new(Rate::ONE, 3.0).unwrap().and(4.0).unwrap().multiplier();
        assert!(joint < 2.4 && joint > 2.4 - 1e-14);
    }
}
