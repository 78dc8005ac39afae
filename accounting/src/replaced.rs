//! The geometry of a replaced sample if a draw releases one-hot counts next to the sum of gradients.
//!
//! Either sample moves the two releases by at most `a = √(1/σ_T² + 1/σ_H²)` in units of their σ. A replaced sample
//! moves the sum of gradients by up to twice the clip. It moves a 1 from one count to another, which is √2 in the
//! 2-norm. So the distance of the two releases is at most `b = √(4/σ_T² + 2/σ_H²)`.

use damper_core::numerics::up::{add_up, div_up, next_down, sqrt_up};

/// `b/a = √(2 + 2/(1 + (σ_T/σ_H)²))`, rounded up, or 2 without counts. Multipliers are above 0.
pub(crate) fn apart(gradient: f64, counts: Option<f64>) -> f64 {
    let Some(counts) = counts else { return 2.0 };
    let ratio = next_down(gradient / counts).max(0.0);
    sqrt_up(add_up(2.0, div_up(2.0, next_down(1.0 + next_down(ratio * ratio).max(0.0))))).min(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apart_is_the_formula_rounded_up() {
        for (gradient, counts) in [(1.0f64, 5.0f64), (5.0, 1.0), (2.0, 2.0), (0.3, 1e9), (1e-150, 1e150), (1e150, 3.0)]
        {
            let near = (1.0 / (gradient * gradient) + 1.0 / (counts * counts)).sqrt();
            let exact = (4.0 / (gradient * gradient) + 2.0 / (counts * counts)).sqrt() / near;
            let found = apart(gradient, Some(counts));
            if exact.is_finite() {
                assert!(found >= exact * (1.0 - 1e-15) && found <= exact * (1.0 + 2e-15), "{found} {exact}");
            }
            assert!((2f64.sqrt()..=2.0).contains(&found), "{found}");
        }
        assert_eq!(apart(3.0, None), 2.0);
    }
}
