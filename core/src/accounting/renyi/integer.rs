//! Integer orders: a finite sum without cancellation.
//!
//! Source: Mironov, Talwar, Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", arXiv 1908.10530,
//! section 3.3. For the Poisson-subsampled Gaussian of rate q and multiplier σ, the α-th moment of the likelihood ratio
//! "mixture against base" is
//!
//! ```text
//! A_α = Σ_{k=0..α} C(α,k) q^k (1−q)^(α−k) exp((k²−k)/2σ²),      D_α = ln(A_α) / (α−1)
//! ```
//!
//! The binomial weights sum to 1 and the exponent vanishes at k = 0 and 1. So
//!
//! ```text
//! A_α − 1 = Σ_{k=2..α} C(α,k) q^k (1−q)^(α−k) expm1((k²−k)/2σ²)
//! ```
//!
//! has positive terms only. A small A_α − 1 keeps its digits, and rounding every operation up gives an upper bound.
//! Terms are added by their logarithms, so nothing overflows.
//!
//! # Why the discrete Gaussian costs the same
//!
//! The exact path adds a discrete Gaussian: integers x with weight exp(−x²/2σ²), σ in grid units. Let P be this
//! distribution at the origin and Q at an integer shift Δ, in any dimension. Let `θ(c) = Σ_x exp(−(x−c)²/2σ²)` over the
//! integers x. Completing the square in `(Q/P)^k = exp(k(2⟨x,Δ⟩ − ‖Δ‖²)/2σ²)` gives, for every real k,
//!
//! ```text
//! E_P[(Q/P)^k] = exp(k(k−1)‖Δ‖²/2σ²) · Π_i θ(kΔ_i)/θ(0)
//! ```
//!
//! θ has period 1, so at integer k the product is 1, and the moments are exactly those of the continuous Gaussian.
//! `A_α` at an integer α is a binomial sum of integer moments with positive weights. It is therefore exactly the
//! continuous value for ‖Δ‖ = C. It increases in ‖Δ‖, which the integer check of the clip bounds by C. It depends on Δ
//! only through ‖Δ‖, so one dimension suffices.
//!
//! The proof also needs that "mixture against base" is the worse of the two directions (the same paper, theorem 5 and
//! its corollary). The reflection x → Δ − x swaps P and Q, which is sufficient for that.
//!
//! By Poisson summation `θ(c) = σ√(2π) (1 + 2 Σ_{n≥1} exp(−2π²σ²n²) cos(2πnc))`. So `θ(c) ≤ θ(0)`, and at real k the
//! moments are at most the continuous moments.
//!
//! At **fractional** orders α the moment is not a sum of moments, and the code assumes that the two agree. Along the
//! shift, the lattice sum is a trapezoidal rule of step 1 for the integral in [`super::fractional`]. Its relative error
//! is below `exp(a²/2σ² − 2πa)`. Here a is the half-width of the strip in which the integrand is analytic,
//! `a < πσ²/‖Δ‖`. With σ ≥ 2^10 grid units and σ²/‖Δ‖ ≥ 10, the exponent is below −160, far below the last bit of an
//! `f64`. For a smaller σ, use integer orders, or the convex bound between them.
//!
//! # Numerics
//!
//! `⊕ ⊗ ⊘` are the operations of [`up`](crate::numerics::up), and `ln` and `expm1` its functions. `1 − q` is exact, and
//! the sum is its [`LogSum`]. Let `o = q ⊘ (1−q)`, `h = ((((2 ⊗ 1)/2) ⊘ σ) ⊘ σ)/2`, and `w = 1`, `l = α ⊗ ln(1−q)`
//! before the first term. For `k = 1 … α`:
//!
//! ```text
//! w ← w ⊗ (o ⊗ ((α − k + 1) ⊘ k));  outside [1e−100, 1e100]: l ← l ⊕ ln w, w ← 1
//! t = k(k−1) ⊗ h;  from k = 2 on the term w·e^(l ⊕ t) where t > 40, else (w ⊗ expm1 t)·e^l
//! ```
//!
//! `ln A` is `ln(1 + Σ)`. At `q = 1` it is `(((α ⊗ (α−1))/2) ⊘ σ) ⊘ σ`, and at `q = 0` it is 0.

use crate::accounting::event::SampledGaussian;
use crate::numerics::up::{LogSum, add_up, div_up, exp_m1_up, ln_up, mul_up};

/// Above this exponent, `e^t` replaces `expm1(t)`. They differ by less than the last bit of an `f64`.
const EXP_M1_IS_EXP: f64 = 40.0;

/// Returns `ln A_α` at an integer order, rounded up. At rate 1, it is the unsampled Gaussian's `α(α−1)/2σ²`.
pub(super) fn ln_moment(event: &SampledGaussian, order: u32) -> f64 {
    let alpha = f64::from(order);
    let q = event.rate().as_f64();
    if q == 0.0 {
        return 0.0;
    }
    if q == 1.0 {
        return gaussian_exponent(alpha, event.multiplier());
    }
    let out = event.rate().complement().as_f64();
    let odds = div_up(q, out);
    let half_precision = gaussian_exponent(2.0, event.multiplier()) / 2.0;

    // The binomial weight of k is weight · e^ln_weight. Each term takes one multiplication, with rescaling near the
    // limits.
    let (mut weight, mut ln_weight) = (1.0, mul_up(alpha, ln_up(out)));
    let mut excess = LogSum::EMPTY;
    for k in 1..=order {
        let k = f64::from(k);
        weight = mul_up(weight, mul_up(odds, div_up(alpha - k + 1.0, k)));
        if !(1e-100..=1e100).contains(&weight) {
            ln_weight = add_up(ln_weight, ln_up(weight));
            weight = 1.0;
        }
        let exponent = mul_up(k * (k - 1.0), half_precision);
        if k == 1.0 {
            continue;
        } else if exponent > EXP_M1_IS_EXP {
            excess.add_scaled(weight, add_up(ln_weight, exponent));
        } else {
            excess.add_scaled(mul_up(weight, exp_m1_up(exponent)), ln_weight);
        }
    }
    excess.ln_1p()
}

/// Returns `(k²−k)/2σ²`, rounded up: the logarithm of the k-th moment of a Gaussian's likelihood ratio.
pub(super) fn gaussian_exponent(k: f64, sigma: f64) -> f64 {
    let product = mul_up(k, k - 1.0);
    div_up(div_up(product / 2.0, sigma), sigma)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::event::Rate;
    use libm::{exp, log};
    use std::vec::Vec;

    const REACH: i32 = 60;

    /// Returns θ(c) over the integers.
    fn theta(c: f64, sigma: f64) -> f64 {
        (-REACH..=REACH)
            .map(|x| exp(-(f64::from(x) - c) * (f64::from(x) - c) / (2.0 * sigma * sigma)))
            .fold(0.0, |a, b| a + b)
    }

    /// Returns, for points of the plane, ln P of the discrete Gaussian at the origin, and ln(Q/P) for the shift.
    fn plane(sigma: f64, shift: [i32; 2]) -> Vec<(f64, f64)> {
        let scale = 2.0 * sigma * sigma;
        let ln_total = 2.0 * log(theta(0.0, sigma));
        let mut points = Vec::new();
        for x in -REACH..=REACH {
            for y in -REACH..=REACH {
                let ln_p = -f64::from(x * x + y * y) / scale - ln_total;
                let inner = 2 * (x * shift[0] + y * shift[1]) - shift[0] * shift[0] - shift[1] * shift[1];
                points.push((ln_p, f64::from(inner) / scale));
            }
        }
        points
    }

    /// Returns `E_P[(1 − q + q·Q/P)^k]`.
    fn moment(points: &[(f64, f64)], q: f64, k: f64) -> f64 {
        let ln_mixed = |ln_ratio: f64| {
            if q == 1.0 { ln_ratio } else { log(1.0 - q + q * exp(ln_ratio)) }
        };
        points.iter().fold(0.0, |sum, &(ln_p, ln_ratio)| sum + exp(ln_p + k * ln_mixed(ln_ratio)))
    }

    fn continuous(k: f64, sigma: f64, shift: [i32; 2]) -> f64 {
        exp(k * (k - 1.0) * f64::from(shift[0] * shift[0] + shift[1] * shift[1]) / (2.0 * sigma * sigma))
    }

    // A discrete moment is the continuous moment times theta, and no larger.
    #[test]
    fn discrete_moment_is_at_most_continuous() {
        for (sigma, shift) in [(0.45, [1, 1]), (0.6, [2, 1]), (0.5, [1, 0]), (1.5, [3, -2])] {
            let points = plane(sigma, shift);
            let mut theta_mattered = false;
            for k in [0.5, 1.0, 1.5, 2.0, 2.3, 3.0, 4.0] {
                let discrete = moment(&points, 1.0, k);
                let plain = continuous(k, sigma, shift);
                let correction =
                    shift.iter().fold(1.0, |product, &d| product * theta(k * f64::from(d), sigma) / theta(0.0, sigma));
                assert!((discrete / (plain * correction) - 1.0).abs() < 1e-11, "σ {sigma}, {shift:?}, k {k}");
                assert!(discrete <= plain * (1.0 + 1e-11), "σ {sigma}, {shift:?}, k {k}");
                if k as i32 as f64 == k {
                    assert!((discrete / plain - 1.0).abs() < 1e-11, "σ {sigma}, {shift:?}, k {k}");
                }
                theta_mattered |= discrete < 0.999 * plain;
            }
            // At a small σ, the check would detect a constant θ.
            assert_eq!(theta_mattered, sigma < 1.0);
        }
    }

    // At integer orders, the bound holds for the discrete Gaussian in both directions.
    #[test]
    fn integer_order_bound_fits_discrete() {
        for (sigma, shift) in [(1.5, [1, 1]), (2.0, [2, 1]), (0.8, [1, 0])] {
            let points = plane(sigma, shift);
            let length = libm::sqrt(f64::from(shift[0] * shift[0] + shift[1] * shift[1]));
            for q in [0.01, 0.25, 0.75, 1.0] {
                let rate = Rate::at_most(q).unwrap();
                let q = rate.as_f64();
                for order in 2..9 {
                    let ours = ln_moment(&SampledGaussian::new(rate, sigma / length).unwrap(), order);
                    let alpha = f64::from(order);
                    let forward = log(moment(&points, q, alpha));
                    let backward = log(moment(&points, q, 1.0 - alpha));
                    assert!((ours - forward).abs() < 1e-11 * (1.0 + ours), "{sigma} {q} {order}: {ours} {forward}");
                    assert!(backward <= ours + 1e-11, "{sigma} {q} {order}: {ours} {backward}");
                    // A multiplier that is 1 % too large would be detected.
                    let wrong = ln_moment(&SampledGaussian::new(rate, 1.01 * sigma / length).unwrap(), order);
                    assert!(wrong < forward - 1e-8, "{sigma} {q} {order}");
                }
            }
        }
    }
}
