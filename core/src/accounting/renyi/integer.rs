//! Integer orders: a finite sum without cancellation.
//!
//! For the Poisson-subsampled Gaussian of rate q and multiplier σ, the α-th moment of the likelihood ratio "mixture
//! against base" is (Mironov, Talwar, Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", arXiv
//! 1908.10530, section 3.3)
//!
//! ```text
//! A_α = Σ_{k=0..α} C(α,k) q^k (1−q)^(α−k) exp((k²−k)/2σ²),      D_α = ln(A_α) / (α−1)
//! ```
//!
//! and, since the binomial weights add to 1 and the exponent vanishes at k = 0 and 1,
//!
//! ```text
//! A_α − 1 = Σ_{k=2..α} C(α,k) q^k (1−q)^(α−k) expm1((k²−k)/2σ²)
//! ```
//!
//! has positive terms only: a small A_α − 1 keeps its digits, and rounding every step up bounds it from above. Terms are
//! added by their logarithms, so nothing overflows.
//!
//! # Why the discrete Gaussian costs the same
//!
//! The exact path adds a discrete Gaussian: integers x with weight exp(−x²/2σ²), σ in grid units. Let P be it at the
//! origin and Q at an integer shift Δ, in any dimension, and `θ(c) = Σ_x exp(−(x−c)²/2σ²)` over the integers x.
//! Completing the square in `(Q/P)^k = exp(k(2⟨x,Δ⟩ − ‖Δ‖²)/2σ²)` gives, for every real k,
//!
//! ```text
//! E_P[(Q/P)^k] = exp(k(k−1)‖Δ‖²/2σ²) · Π_i θ(kΔ_i)/θ(0)
//! ```
//!
//! θ has period 1, so at integer k the product is 1: the moments are exactly the continuous Gaussian's. `A_α` at an
//! integer α is a binomial sum of integer moments with positive weights, hence exactly the continuous one for ‖Δ‖ = C, and
//! increasing in ‖Δ‖, which the integer check of the clip bounds by C. It depends on Δ through ‖Δ‖ only, so one
//! dimension decides. The reflection x → Δ − x swaps P and Q, which is all that the proof needs that "mixture against
//! base" is the worse of the two directions (the same paper, theorem 5 and its corollary).
//!
//! By Poisson summation `θ(c) = σ√(2π) (1 + 2 Σ_{n≥1} exp(−2π²σ²n²) cos(2πnc))`, so `θ(c) ≤ θ(0)` and at real k the
//! moments are no larger than the continuous ones. At **fractional** orders α the moment is not a sum of moments, and what
//! is assumed is that the two agree: the lattice sum is a trapezoidal rule of step 1 for the integral that
//! [`super::fractional`] evaluates, and its relative error is below `exp(a²/2σ² − 2πa)` with a the half-width of the
//! strip where the integrand is analytic, `a < πσ²/‖Δ‖`. With σ ≥ 2^10 grid units and σ²/‖Δ‖ ≥ 10 the exponent is
//! below −160: far below an `f64`'s last bit. Below that size use integer orders, or the convex bound between them.

use crate::accounting::event::Event;
use crate::numerics::up::{LogSum, add_up, div_up, exp_m1_up, ln_up, mul_up};

/// `ln A_α` at an integer order, rounded up. A rate of 1 gives the unsampled Gaussian's `α(α−1)/2σ²`.
pub(super) fn ln_moment(event: &Event, order: u32) -> f64 {
    let sigma = event.multiplier();
    let alpha = f64::from(order);
    let q = event.rate().as_f64();
    if q == 0.0 {
        return 0.0;
    }
    if q == 1.0 {
        return gaussian_exponent(alpha, sigma);
    }
    let ln_in = ln_up(q);
    let ln_out = ln_up(event.rate().complement().as_f64());
    let mut binomial = 1.0;
    let mut excess = LogSum::EMPTY;
    for k in 1..=order {
        let kf = f64::from(k);
        binomial = if k == 1 { alpha } else { mul_up(binomial, div_up(alpha - kf + 1.0, kf)) };
        if k > 1 {
            let weight = add_up(mul_up(kf, ln_in), mul_up(alpha - kf, ln_out));
            excess.add(add_up(add_up(ln_up(binomial), weight), ln_exp_m1(gaussian_exponent(kf, sigma))));
        }
    }
    excess.ln_1p()
}

/// `(k²−k)/2σ²`, rounded up: the logarithm of the k-th moment of a Gaussian's likelihood ratio.
pub(super) fn gaussian_exponent(k: f64, sigma: f64) -> f64 {
    let product = mul_up(k, k - 1.0);
    div_up(div_up(product / 2.0, sigma), sigma)
}

/// An upper bound of `ln(eᵗ − 1)` for t > 0, exact to rounding.
fn ln_exp_m1(t: f64) -> f64 {
    // From here on e^-t is below half a unit in the last place of t.
    if t > 40.0 { t } else { ln_up(exp_m1_up(t)) }
}
