//! The best of a truncated negative binomial number of candidates.
//!
//! Papernot and Steinke, "Hyperparameter tuning with Rényi differential privacy" (arXiv 2110.03620), theorem 2. The
//! number K of candidates has, for a shape η > −1 and a success probability γ,
//!
//! ```text
//! P[K = k] ∝ (1−γ)^k Π_{l<k} (l+η)/(l+1),   k ≥ 1
//! ```
//!
//! which is the geometric distribution at η = 1 and the logarithmic distribution at η = 0. If a candidate has the Rényi
//! divergences c(λ) in both directions, the best of K has at each order λ, for any order μ ≥ 1,
//!
//! ```text
//! c'(λ) = c(λ) + (1+η)(1 − 1/μ) c(μ) + (1+η) ln(1/γ)/μ + ln E[K]/(λ−1)
//! ```
//!
//! # Proof
//!
//! By their lemma 7 the excess is at most `ln(f'(q)^λ f'(q')^(1−λ))/(λ−1)`. Here f is the generating function of K, and
//! q, q' are the probabilities of a randomised event of one candidate on neighbours. For this K,
//! `f'(x) = E[K] (γ/a)^(1+η)` with `a = 1 − (1−γ)x ≥ γ`, and a is itself the probability of such an event. So
//! `a' ≤ a^(1−1/μ) exp((1−1/μ) c(μ))`, and
//!
//! ```text
//! f'(q)^λ f'(q')^(1−λ) = E[K] γ^(1+η) (a'^(λ−1) a^(−λ))^(1+η)
//!                      ≤ E[K] γ^(1+η) (a^(−1−(λ−1)/μ) exp((λ−1)(1−1/μ) c(μ)))^(1+η)
//! ```
//!
//! which is largest at a = γ. The lemma orders the outcomes. If some outcomes are equal, two further random values
//! order them: the outcome with the larger value comes first. The event then has a part of the outcome's probability.

use super::curve::Curve;
use damper_core::accounting::renyi::ORDERS;
use damper_core::numerics::up::{add_up, div_up, ln_up, mul_up};

/// Relative bound on the rounding errors of a few operations.
const SLACK: f64 = 1.0 + 1e-9;

/// E[K], rounded up.
pub(super) fn mean(shape: f64, success: f64) -> f64 {
    let failure = 1.0 - success;
    let mean = if shape == 0.0 {
        failure / (success * -libm::log(success))
    } else {
        // 1 − γ^η without cancellation at small η.
        shape * failure / (success * -libm::expm1(shape * libm::log(success)))
    };
    mean.max(1.0) * SLACK
}

/// Returns the divergences of the best candidate, from those of a candidate.
pub(super) fn best(curve: &Curve, shape: f64, success: f64) -> Curve {
    let ln_reciprocal = ln_up(div_up(1.0, success));
    // At order 1 the divergence does not count.
    let mut least = ln_reciprocal;
    for (&order, &divergence) in ORDERS.iter().zip(curve) {
        let at = add_up(mul_up(div_up(order - 1.0, order), divergence), div_up(ln_reciprocal, order));
        least = least.min(at);
    }
    let surcharge = mul_up(add_up(1.0, shape), least);
    let ln_mean = ln_up(mean(shape, success));
    let mut best = *curve;
    for (divergence, &order) in best.iter_mut().zip(&ORDERS) {
        *divergence = add_up(add_up(*divergence, surcharge), div_up(ln_mean, order - 1.0));
    }
    best
}
