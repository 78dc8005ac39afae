//! Noise that grows as the learning rate falls, from the central limit theorem for the privacy cost of a subsampled
//! step.
//!
//! With Poisson sampling at a small rate, the privacy cost of all steps is close to a function of `Σ (e^(1/z_t²) − 1)`.
//! Here `z_t` is the noise multiplier of step `t`. The noise that reaches the parameters is `Σ η_t²·z_t²`. For a fixed
//! privacy cost, this noise is smallest if
//!
//! ```text
//! z_t⁴·e^(−1/z_t²) = λ/η_t²
//! ```
//!
//! If all `z_t` are large, this is the paper's `α_t² ∝ 1/η_t`. If they are small, it is flatter, because the privacy
//! cost rises steeply there. The multiplier of the first step at full learning rate, `z_0`, determines `λ`. So
//! `α_t = z_t/z_0` solves
//!
//! ```text
//! a·e^((1 − 1/a)/(2·z_0²)) = η_0/η_t          α_t = √a
//! ```
//!
//! Sources: the objective and the composition are from Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially
//! Private Empirical Risk Minimization", §4. The CLT privacy cost is from Bu, Dong, Long, Su, "Deep Learning with
//! Gaussian Differential Privacy". It only shapes the schedule. The guarantee comes from the accountant, for the
//! schedule that runs.
//!
//! # Memory
//!
//! None.
//!
//! # Numerics
//!
//! All arithmetic is in f64, with `exp` in the bits of `libm`. Let `R = η_0/η_t`, limited to 10⁻¹⁸ … 10¹⁸ (an undefined
//! quotient becomes the lower limit), and `u = (1/(z_0·z_0))/2`. If `R = 1`, `α = 1`.
//!
//! Otherwise, let `(l, h) = (1, R)`, exchanged if `R` is below 1. Bisect at most 200 times, while `l < m < h` for
//! `m = (l + h)/2`: `l = m` if `m·e^(u·(1 − 1/m)) < R`, else `h = m`. Then `α = √l`.
//!
//! # Privacy
//!
//! A function of the step number and of constants that are declared before data is read.

use super::LearningRate;
use super::factor::Noise;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;
use crate::numerics::order::is_within;
use crate::numerics::scalar::{exp, sqrt};

/// Upper limit of a quotient of learning rates. Its reciprocal is the lower limit.
const LARGEST: f64 = 1e18;
/// Largest number of bisections.
const HALVINGS: u32 = 200;

/// Noise schedule of the central limit theorem, for a noise multiplier of `first` at the first step.
///
/// ```
/// use damper_core::schedule::{CltNoise, Decay, LearningRate, Noise as _};
///
/// let (noise, rate) = (CltNoise::new(1.0)?, LearningRate::new(0.5, 0, Decay::Step { every: 1, factor: 0.5 })?);
/// assert_eq!((noise.first(), noise.factor(0, &rate)), (1.0, 1.0));
/// // A smaller learning rate bears more noise.
/// assert!(noise.factor(1, &rate) > 1.0);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CltNoise {
    first: f64,
}

impl CltNoise {
    /// Creates the schedule with noise multiplier `first` at the first step.
    ///
    /// # Errors
    ///
    /// Fails unless `first` is from 0.05 to 10⁶.
    pub fn new(first: f64) -> Result<Self, ConfigError> {
        if is_within(first, 0.05, 1e6) {
            Ok(Self { first })
        } else {
            Err(ConfigError::new("first multiplier of the noise schedule", "from 0.05 to 10^6"))
        }
    }

    /// Returns `z_0`.
    #[must_use]
    pub fn first(&self) -> f64 {
        self.first
    }

    /// Returns `α_t` for a learning rate that is the first learning rate divided by `quotient`.
    fn at_quotient(&self, quotient: f64) -> f64 {
        let quotient = if quotient > LARGEST {
            LARGEST
        } else if quotient > 1.0 / LARGEST {
            quotient
        } else {
            1.0 / LARGEST
        };
        if !is_within(quotient, 1.0, 1.0) {
            let half = 1.0 / (self.first * self.first) / 2.0;
            let (mut low, mut high) = if quotient > 1.0 { (1.0, quotient) } else { (quotient, 1.0) };
            for _ in 0..HALVINGS {
                let middle = (low + high) / 2.0;
                if !(low < middle && middle < high) {
                    break;
                }
                if middle * exp(half * (1.0 - 1.0 / middle)) < quotient {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            return sqrt(low);
        }
        1.0
    }
}

impl Sealed for CltNoise {}

impl Noise for CltNoise {
    fn fingerprint(&self, learning_rate: &LearningRate) -> u64 {
        let (mut digest, [base, kind, first, second]) = (Digest::default(), learning_rate.words());
        digest.add_words([3, self.first.to_bits(), base, kind, first, second]);
        digest.value()
    }

    fn factor(&self, step: u32, learning_rate: &LearningRate) -> f64 {
        self.at_quotient(learning_rate.at(0) / learning_rate.at(step))
    }

    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Decay, Declared, NoiseSchedule, Schedule};
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    fn rate(decay: Decay) -> LearningRate {
        LearningRate::new(0.7, 0, decay).unwrap()
    }

    /// Returns `Σ η²z²` and `Σ (e^(1/z²) − 1)`.
    fn sums(rates: &[f64], multipliers: &[f64]) -> (f64, f64) {
        let noise = rates.iter().zip(multipliers).map(|(rate, z)| (rate * z).powi(2)).sum();
        (noise, multipliers.iter().map(|z| libm::expm1(1.0 / (z * z))).sum())
    }

    /// Returns the multipliers of this shape with privacy cost `price`.
    fn priced(shape: &[f64], price: f64) -> Vec<f64> {
        let scaled = |scale: f64| shape.iter().map(|factor| factor * scale).collect::<Vec<_>>();
        let (mut low, mut high) = (1e-3, 1e3);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if sums(shape, &scaled(middle)).1 > price { low = middle } else { high = middle }
        }
        scaled(high)
    }

    proptest! {
        /// `z_t⁴·e^(−1/z_t²)·η_t²` is equal for all steps.
        #[test]
        fn clt_factors_solve_the_equation(first in 0.1f64..50.0, quotient in 1e-6f64..1e6) {
            let factor = CltNoise::new(first).unwrap().at_quotient(quotient);
            let log = |z: f64| 4.0 * libm::log(z) - 1.0 / (z * z);
            let expected = log(first) + 2.0 * libm::log(quotient);
            let found = log(first * factor);
            prop_assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{found} {expected}");
        }

        /// At equal privacy cost, the noise that reaches the parameters is at most that of other shapes.
        #[test]
        fn clt_noise_is_least_at_equal_price(first in 0.4f64..5.0, slope in 0.01f64..2.0, exponent in 0.0f64..1.5) {
            let rate = rate(Decay::Polynomial { offset: 3.0, slope });
            let clt = CltNoise::new(first).unwrap();
            let rates: Vec<f64> = (0..60).map(|t| rate.at(t)).collect();
            let best: Vec<f64> = (0..60).map(|t| first * clt.factor(t, &rate)).collect();
            let (noise, price) = sums(&rates, &best);
            let other = NoiseSchedule::Matched { exponent };
            let shape: Vec<f64> = (0..60).map(|t| other.factor(t, &rate)).collect();
            prop_assert!(sums(&rates, &priced(&shape, price)).0 > noise * (1.0 - 1e-9));
        }
    }

    // At high noise, the CLT schedule is the published rule.
    #[test]
    fn clt_is_published_rule_at_high_noise() {
        let rate = rate(Decay::Polynomial { offset: 20.0, slope: 1.0 });
        let (clt, matched) = (CltNoise::new(1000.0).unwrap(), NoiseSchedule::Matched { exponent: 0.5 });
        for t in [0, 1, 500, 11_759] {
            assert!((clt.factor(t, &rate) / matched.factor(t, &rate) - 1.0).abs() < 1e-5);
        }
    }

    // The factors are 1 at the first learning rate, and always positive and finite.
    #[test]
    fn clt_factors_start_at_one_and_finite() {
        let clt = CltNoise::new(0.5).unwrap();
        let constant = rate(Decay::Constant);
        assert!((0..9).all(|t| clt.factor(t, &constant) == 1.0));
        for quotient in [0.0, f64::INFINITY, f64::NAN, 1e300, 1e-300, -1.0] {
            let factor = clt.at_quotient(quotient);
            assert!(factor.is_finite() && factor > 0.0, "{quotient}: {factor}");
        }
        let declared = Declared { learning_rate: rate(Decay::RootLinear { steps: 10, floor: 0.0 }), noise: clt };
        assert!(declared.check().is_ok() && declared.noise_factor(10) > 1.0);
    }

    #[test]
    fn clt_refuses_multipliers_out_of_range() {
        for first in [0.0, 0.04, -1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert!(CltNoise::new(first).is_err(), "{first}");
        }
    }
}
