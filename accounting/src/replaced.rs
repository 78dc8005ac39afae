//! What a draw costs where neighbours have one sample in the place of another.
//!
//! A replaced sample moves the sum of gradients by up to twice the clip, and one-hot counts by √2: it takes 1 from one bin and adds it
//! to another. Both releases are one Gaussian, whose shift in units of its own σ is `√(4/σ_T² + 2/σ_H²)`.

use super::AccountingError;
use damper_core::numerics::up::{add_up, div_up, mul_up, next_down, sqrt_up};

/// `(4/σ_T² + 2/σ_H²)^(−1/2)`, rounded down: σ over the shift, for [`Neighbours::Replace`](crate::pld::Neighbours::Replace), of a draw that releases a
/// sum of gradients with multiplier `gradient` and, where `counts` is given, one-hot counts with that multiplier.
///
/// # Errors
///
/// A multiplier that is not a finite number above 0.
pub fn replaced(gradient: f64, counts: Option<f64>) -> Result<f64, AccountingError> {
    let valid = |multiplier: f64| multiplier > 0.0 && multiplier.is_finite();
    if !valid(gradient) {
        return Err(AccountingError::NoiseMultiplier(gradient));
    }
    let Some(counts) = counts else { return Ok(gradient / 2.0) };
    if !valid(counts) {
        return Err(AccountingError::CountNoise(counts));
    }
    // σ_T / √(4 + 2 (σ_T/σ_H)²), or where that is larger with the two changed about, so that nothing overflows.
    let (own, factor, other, ratio) = if gradient <= counts {
        (gradient, 4.0, 2.0, div_up(gradient, counts))
    } else {
        (counts, 2.0, 4.0, div_up(counts, gradient))
    };
    let shift = sqrt_up(add_up(factor, mul_up(other, mul_up(ratio, ratio))));
    let found = next_down(own / shift);
    if found > 0.0 { Ok(found) } else { Err(AccountingError::NoiseMultiplier(gradient)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_joint_multiplier_is_the_formulas_rounded_down() {
        for (gradient, counts) in [(1.0f64, 5.0f64), (5.0, 1.0), (2.0, 2.0), (0.3, 1e9), (1e-150, 1e150), (1e150, 3.0)]
        {
            let exact = (4.0 / (gradient * gradient) + 2.0 / (counts * counts)).powf(-0.5);
            let found = replaced(gradient, Some(counts)).unwrap();
            if exact.is_normal() && exact > 1e-140 {
                assert!(found <= exact * (1.0 + 1e-15) && found >= exact * (1.0 - 2e-15), "{found} {exact}");
            }
            assert!(found < gradient / 2.0 * (1.0 + 1e-15) && found < counts);
        }
        assert_eq!(replaced(3.0, None), Ok(1.5));
    }

    #[test]
    fn a_multiplier_outside_its_domain_is_refused_by_its_flag() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(replaced(bad, None).unwrap_err().to_string().starts_with("--noise-multiplier"));
            assert!(replaced(1.0, Some(bad)).unwrap_err().to_string().starts_with("--count-noise-multiplier"));
        }
    }
}
