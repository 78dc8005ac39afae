//! Division of a total multiplier between gradient and counts.
//!
//! ```text
//! σ_T = (1/σ² − 1/σ_H²)^(-1/2)
//! ```
//!
//! A step that releases its gradient at `σ_T` and its counts at `σ_H` then has the privacy cost of a step of DP-SGD at
//! `σ`.
//!
//! Sources: Wei et al., "DC-SGD", theorem 2, and Andrew et al., "Differentially Private Learning with Adaptive
//! Clipping", theorem 1, with `σ_H` as `2σ_b` and `σ_T` as `z_Δ`.
//!
//! # Numerics
//!
//! In f64: `r = σ/σ_H`, then `σ / √((1 − r)·(1 + r))`, which keeps its digits for `σ_H` near `σ`.
//!
//! # Privacy
//!
//! The guarantee does not depend on this division. [`PrivateStep::event_at`](crate::step::PrivateStep::event_at)
//! accounts for the noise that runs.

use super::CountNoise;
use crate::error::ConfigError;
use crate::numerics::function::sqrt_f64;

/// Returns the multiplier of the gradient's noise, `σ_T`, for the multiplier `total` together with counts of noise
/// `counts`.
///
/// # Errors
///
/// Fails if `total` is not above 0, or not below the multiplier of the counts. In the latter case, the counts alone
/// cost as much or more.
///
/// ```
/// use damper_core::accounting::{Rate, SampledGaussian};
/// use damper_core::count::CountNoise;
/// use damper_core::threshold::gradient_multiplier;
///
/// let counts = CountNoise::new(10.0)?;
/// let gradient = gradient_multiplier(1.1, counts)?;
/// let both = SampledGaussian::new(Rate::of(60, 1797)?, gradient)?.and(counts.multiplier())?;
/// assert!((both.multiplier() - 1.1).abs() < 1e-12);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub fn gradient_multiplier(total: f64, counts: CountNoise) -> Result<f64, ConfigError> {
    if !(total.is_finite() && total > 0.0) {
        return Err(ConfigError::new("noise multiplier", "finite and above 0"));
    }
    let ratio = total / counts.multiplier();
    if ratio >= 1.0 {
        return Err(ConfigError::new("noise multiplier", "below that of the counts"));
    }
    Ok(total / sqrt_f64((1.0 - ratio) * (1.0 + ratio)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::{Rate, SampledGaussian};
    use proptest::prelude::*;

    proptest! {
        // The inverse variances of gradient and counts add up to the total.
        #[test]
        fn inverse_variances_add_to_total(total in 0.01f64..20.0, excess in 0.01f64..1000.0) {
            let counts = CountNoise::new((total + excess).max(0.25)).unwrap();
            let gradient = gradient_multiplier(total, counts).unwrap();
            let sum = gradient.powi(-2) + counts.multiplier().powi(-2);
            prop_assert!((sum * total * total - 1.0).abs() < 1e-12);
            let event = SampledGaussian::new(Rate::ONE, gradient).unwrap().and(counts.multiplier()).unwrap();
            prop_assert!((event.multiplier() / total - 1.0).abs() < 1e-12);
        }
    }

    /// Computed in decimal arithmetic of 40 digits: `z_Δ` of Andrew et al. for z = 1 and σ_b = 100/20, and DC-SGD's σ_T
    /// for σ = 0.966 with its σ_H = 5.
    #[test]
    fn known_pairs_come_out() {
        for (total, counts, gradient) in [(1.0, 10.0, 1.005_037_815_259_212), (0.966, 5.0, 0.984_549_507_570_697_3)] {
            let split = gradient_multiplier(total, CountNoise::new(counts).unwrap()).unwrap();
            assert!((split - gradient).abs() < 1e-14, "{split}");
        }
        let far = gradient_multiplier(1.0, CountNoise::new(262_144.0).unwrap()).unwrap();
        assert!(far - 1.0 < 1e-11, "without counts nothing is split off");
    }

    // A total multiplier that the counts alone use up is an error.
    #[test]
    fn total_used_up_by_counts_is_error() {
        let counts = CountNoise::new(5.0).unwrap();
        for total in [5.0, 6.0, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(gradient_multiplier(total, counts).unwrap_err().parameter, "noise multiplier");
        }
    }
}
