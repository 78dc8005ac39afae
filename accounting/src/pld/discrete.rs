//! Proof that bounds for the continuous Gaussian hold for the discrete Gaussian that runs, and the multiplier for which
//! they hold.
//!
//! # The claim
//!
//! Let `D_σ` be the discrete Gaussian on the integers, and X a vector of D independent draws of it. For every integer
//! vector Δ, the pair (X + Δ, X) is, up to the factor below, a **post-processing** of the continuous pair `N(Δ, τ²I)`,
//! `N(0, τ²I)` with `τ² = σ² − s²`, `s² = 8`. The post-processing does not depend on Δ.
//!
//! So consider a run of the discrete mechanism, with any subsampling, in any dimension, over any number of adaptive
//! steps. The tight accountant's result for the continuous mechanism with τ instead of σ bounds it.
//!
//! # Proof
//!
//! Let `ρ_s(x) = e^{−x²/2s²}` and `θ_s(y) = Σ_z ρ_s(z − y)`. Define K: for a real y, release the integer z with
//! probability `ρ_s(z − y)/θ_s(y)`, independently for each coordinate. (This is randomised rounding by a discrete
//! Gaussian centred at y: Peikert, "An efficient and parallel Gaussian sampler for lattices", CRYPTO 2010, theorem
//! 3.1.) By Poisson summation
//!
//! ```text
//! θ_s(y) = s√(2π)·(1 + 2 Σ_{n≥1} e^{−2π²s²n²} cos 2πny)  ∈  s√(2π)·[1 − κ, 1 + κ],   κ = 2.01·e^{−2π²s²}.
//! ```
//!
//! For y of `N(Δ, τ²)` the result z has the probability `∫ N(y; Δ, τ²)·ρ_s(z − y)/θ_s(y) dy`. With a constant
//! denominator the integral is the convolution of two Gaussian densities, `N(z; Δ, τ² + s²) = N(z; Δ, σ²)`. The
//! variation of the denominator changes it by a factor in `[1/(1+κ), 1/(1−κ)]`. Moreover,
//! `D_σ(z − Δ) = N(z; Δ, σ²)/(1 + κ')` with `0 ≤ κ' ≤ κ`, since θ_σ takes the same value at all integers Δ. So for
//! every z and every integer Δ
//!
//! ```text
//! (1 − κ)/(1 + κ) · KN(Δ, τ²)(z)  ≤  D_σ(z − Δ)  ≤  (1 + κ) · KN(Δ, τ²)(z).
//! ```
//!
//! This bounds the ratio at every point. So the bound multiplies over D coordinates, over the parts of a Poisson draw's
//! mixture (with the same K for all), and over T adaptive steps. With `c = 3κDT`, the complete output of the run has
//! `P ≤ e^c·KP'` and `Q ≥ e^{−c}·KQ'` for P' and Q' of the continuous run. Post-processing does not raise a
//! hockey-stick divergence, so
//! ```text
//! δ(ε)  ≤  e^c · δ'(ε − 2c).
//! ```
//!
//! At s² = 8, κ is below 6e-69. For D·T up to 2^128, c is below 1e-29, far below the last bit of δ and ε, which are
//! rounded up by more than that. The remaining effect is τ instead of σ: a multiplier smaller by the factor
//! `√(1 − 8/σ²)`, with σ in grid units, 4e-6 at 1,024.
//!
//! The proof assumes neither a large dimension, nor a direction of Δ, nor integer orders. A joint release of a gradient
//! and a histogram is one vector whose coordinates have two sizes of σ. The factor is that of the smaller σ.

use libm::sqrt;

/// `s²`, in squared grid units.
const SMOOTHING: f64 = 8.0;

/// The multiplier at which the continuous Gaussian bounds the discrete Gaussian of this multiplier, rounded down. The
/// discrete Gaussian's σ is at least `sigma` grid units. `None` if σ² is not above 8.
///
/// ```
/// use damper_accounting::pld::discrete::continuous;
///
/// // A multiplier that is smaller by 4e-6, at a σ of 1024 grid units.
/// let smaller = continuous(1.0, 1024.0).unwrap();
/// assert!(smaller < 1.0 && smaller > 1.0 - 1e-5);
/// ```
#[must_use]
pub fn continuous(multiplier: f64, sigma: f64) -> Option<f64> {
    let left = 1.0 - SMOOTHING / sigma / sigma;
    (left > 0.0).then(|| multiplier * sqrt(left) * (1.0 - 4.0 * f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libm::{erf, exp};
    use std::f64::consts::PI;

    /// `Σ_z e^{−(z−y)²/2s²}`.
    fn theta(y: f64, s: f64) -> f64 {
        (-80..=80).map(|z| exp(-(f64::from(z) - y) * (f64::from(z) - y) / (2.0 * s * s))).sum()
    }

    fn normal(x: f64, sigma: f64) -> f64 {
        exp(-x * x / (2.0 * sigma * sigma)) / (sigma * sqrt(2.0 * PI))
    }

    // Randomised rounding of a continuous Gaussian gives the discrete Gaussian, within the factor of the proof.
    #[test]
    fn randomised_rounding_is_near_discrete() {
        // At a small s the factor is visible.
        for (sigma, s) in [(0.41f64, 0.4f64), (1.2, 0.5), (2.0, 0.6), (3.0, 0.8), (4.0, 1.0)] {
            let tau = sqrt(sigma * sigma - s * s);
            let kappa = 2.01 * exp(-2.0 * PI * PI * s * s);
            let mut seen = 0.0f64;
            for shift in [0, 1, 5] {
                for z in shift - 9..=shift + 9 {
                    let distance = f64::from(z - shift);
                    // The trapezoidal rule is exact up to rounding for such integrands.
                    let step = 1.0 / 64.0;
                    let rounded: f64 = (-64 * 40..64 * 40)
                        .map(|k| {
                            let y = f64::from(shift) + f64::from(k) * step;
                            let away = f64::from(z) - y;
                            step * normal(y - f64::from(shift), tau) * exp(-away * away / (2.0 * s * s)) / theta(y, s)
                        })
                        .sum();
                    let discrete = exp(-distance * distance / (2.0 * sigma * sigma)) / theta(0.0, sigma);
                    let ratio = discrete / rounded;
                    assert!(ratio <= (1.0 + kappa) * (1.0 + 1e-12), "{sigma} {s} {z}: {ratio} {kappa}");
                    assert!(ratio >= (1.0 - kappa) / (1.0 + kappa) * (1.0 - 1e-12), "{sigma} {s} {z}: {ratio} {kappa}");
                    seen = seen.max((ratio - 1.0).abs() / kappa);
                }
            }
            // With so small a τ the denominator is not averaged, and the factor is reached.
            assert!(sigma > 0.5 || seen > 0.1, "the factor is far too large to be checked: {seen}");
        }
    }

    /// δ at ε of the Gaussian with shift μ standard deviations.
    fn continuous_delta(mu: f64, epsilon: f64) -> f64 {
        let phi = |x: f64| 0.5 * (1.0 + erf(x / sqrt(2.0)));
        phi(mu / 2.0 - epsilon / mu) - exp(epsilon) * phi(-mu / 2.0 - epsilon / mu)
    }

    // The 2-D discrete Gaussian costs no more than the continuous Gaussian at the smaller multiplier.
    #[test]
    fn discrete_2d_within_continuous_bound() {
        let mut needed = false;
        for (sigma, shift) in [(5.0, [5, 0]), (5.0, [3, 4]), (6.0, [2, 1]), (8.0, [7, 3]), (4.0, [4, 4])] {
            let length = sqrt(f64::from(shift[0] * shift[0] + shift[1] * shift[1]));
            let smaller = continuous(sigma / length, sigma).unwrap();
            let total = theta(0.0, sigma) * theta(0.0, sigma);
            for tenth in 0..40 {
                let epsilon = f64::from(tenth) / 10.0;
                let mut delta = 0.0;
                for x in -70..=70 {
                    for y in -70..=70 {
                        let at = |x: i32, y: i32| exp(-f64::from(x * x + y * y) / (2.0 * sigma * sigma)) / total;
                        delta += (at(x - shift[0], y - shift[1]) - exp(epsilon) * at(x, y)).max(0.0);
                    }
                }
                let bound = continuous_delta(1.0 / smaller, epsilon);
                assert!(delta <= bound + 1e-13, "{sigma} {shift:?} {epsilon}: {delta} {bound}");
                needed |= delta > continuous_delta(length / sigma, epsilon) * (1.0 + 1e-4) && delta > 1e-6;
            }
        }
        assert!(needed, "without the smaller multiplier the law would hold, too: the check says nothing");
    }

    // At sigma 1024, the reduced multiplier is smaller by 3.8e-6.
    #[test]
    fn reduced_multiplier_is_within_4e_6() {
        assert!((1.0 - continuous(1.0, 1024.0).unwrap() - 3.8147e-6).abs() < 1e-9);
        assert!(continuous(1.0, 2.8).is_none());
    }
}
