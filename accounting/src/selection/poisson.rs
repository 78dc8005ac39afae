//! The best of a Poisson number of candidates.
//!
//! Papernot and Steinke (arXiv 2110.03620), theorem 6. Let the number K of candidates be Poisson of mean m. Let a
//! candidate have the Rényi divergence c(λ) and be (ε, δ)-private with `exp ε ≤ 1 + 1/(λ−1)`. Then the best of K has at
//! the order λ
//!
//! ```text
//! c'(λ) = c(λ) + m δ + ln(m)/(λ−1)
//! ```
//!
//! With K = 0 the output states that no candidate exists.
//!
//! # Proof
//!
//! `f'(x) = m exp(m(x−1))`. By their lemma 7, with q and q' as in `negative_binomial`, the excess times λ−1 is at most
//! `ln m + m(λq − (λ−1)q' − 1)`, and `1−q' ≤ exp(ε)(1−q) + δ` gives
//! `λq − (λ−1)q' − 1 ≤ ((λ−1) exp ε − λ)(1−q) + (λ−1)δ ≤ (λ−1)δ`.

use super::curve::Curve;
use damper_core::accounting::renyi::ORDERS;
use damper_core::numerics::up::{add_up, div_up, exp_up, ln_up, mul_up};

/// δ at which a candidate with these divergences is (ε, δ)-private: proposition 12 of Canonne, Kamath and Steinke
/// (arXiv 2004.00010).
fn delta_at(curve: &Curve, epsilon: f64) -> f64 {
    let mut least: f64 = 1.0;
    for (&order, &divergence) in ORDERS.iter().zip(curve) {
        let below = order - 1.0;
        // (α−1)(c − ε + ln((α−1)/α)) − ln α
        let each = add_up(add_up(divergence, -epsilon), ln_up(div_up(below, order)));
        least = least.min(exp_up(add_up(mul_up(below, each), ln_up(div_up(1.0, order)))));
    }
    least
}

/// Returns the divergences of the best candidate, from those of a candidate.
pub(super) fn best(curve: &Curve, mean: f64) -> Curve {
    let ln_mean = ln_up(mean);
    let mut best = *curve;
    for (divergence, &order) in best.iter_mut().zip(&ORDERS) {
        // Slightly below ln(λ/(λ−1)).
        let epsilon = -ln_up(div_up(order - 1.0, order));
        let surcharge = mul_up(mean, delta_at(curve, epsilon));
        *divergence = add_up(add_up(*divergence, surcharge), div_up(ln_mean, order - 1.0));
    }
    best
}
