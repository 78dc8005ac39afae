//! Fractional orders: quadrature of a non-negative integrand, with an upper bound on every error.
//!
//! Let x = σu ~ N(0, σ²), `z = u/σ − 1/2σ²` and `r = 1 + y`, `y = q·expm1(z)`. The moment is `A_α = E[r^α]`. Because
//! `E[y] = 0`,
//!
//! ```text
//! A_α − 1 = E[f(y)],      f(y) = (1+y)^α − 1 − αy ≥ 0     (Bernoulli)
//! ```
//!
//! and nothing cancels. The expectation is a trapezoidal sum of step h over the whole line (Trefethen, Weideman, "The
//! exponentially convergent trapezoidal rule", SIAM Review 56, 2014, theorem 5.1). The integrand is analytic in the
//! strip |Im u| < πσ, because r never meets the negative axis there. For any a in that strip, the error of the sum is
//! at most `2M/(exp(2πa/h) − 1)`. M bounds `∫|φ f|` on the lines of the strip.
//!
//! `|φ(u+ia)| = φ(u)e^{a²/2}`, `|r^α| ≤ r(Re u)^α` and `|y| ≤ q(|e^z| + 1)` give `M = e^{a²/2}(A_α + 1 + 2αq)`. With
//! `κ = 2e^{a²/2}/(e^{2πa/h} − 1)`,
//!
//! ```text
//! A_α − 1 ≤ (sum + κ(2 + 2αq)) / (1 − κ)
//! ```
//!
//! The sum is truncated at both ends, once geometric bounds on the rest are small. The bounds are added to the sum. On
//! the right, `φ r^α` falls by at least `e^{−h(u − α/σ)}` a step beyond u = α/σ. On the left, f is convex with f(0) = 0
//! and f(−1) = α−1, so `f ≤ (α−1)q`. Rounding in the evaluation of the terms is below 1e-11 relative. [`PADDING`] is a
//! hundred times larger.

use crate::accounting::event::SampledGaussian;
use crate::numerics::up::{LogSum, add_up, exp_m1_up, exp_up, ln_1p_up, ln_up, mul_up, sqrt_up, sub_up};

use super::integer;

/// Relative allowance for the rounding of the quadrature's terms.
const PADDING: f64 = 1e-9;
/// Target for the trapezoidal error relative to A − 1, as a natural logarithm: 2e-9.
const LN_ACCURACY: f64 = 20.0;
/// Largest truncated ends, relative to the sum, as a natural logarithm.
const LN_CUT: f64 = 22.0;
/// Number of points that the step is planned for. At extremes a wider step is used, and its error is part of the bound.
const POINTS: u32 = 1024;

/// Returns an upper bound on `ln A_α` at any real order above 1.
pub(super) fn ln_moment(event: &SampledGaussian, alpha: f64) -> f64 {
    let q = event.rate().as_f64();
    if q == 0.0 {
        return 0.0;
    }
    if q == 1.0 {
        return integer::gaussian_exponent(alpha, event.multiplier());
    }
    let chord = chord(event, alpha);
    match quadrature(event, alpha) {
        Some(ln_moment) if ln_moment < chord => ln_moment,
        _ => chord,
    }
}

/// Returns the bound by convexity: `ln A_α` is convex in α and 0 at α = 1, so it is below the chord between integers.
fn chord(event: &SampledGaussian, alpha: f64) -> f64 {
    let below = alpha as u32;
    let part = alpha - f64::from(below);
    let left = if below < 2 { 0.0 } else { integer::ln_moment(event, below) };
    let right = integer::ln_moment(event, below + 1);
    if right == f64::INFINITY { right } else { add_up(mul_up(1.0 - part, left), mul_up(part, right)) }
}

/// Returns the trapezoidal bound, or `None` if the step for [`POINTS`] points is too wide for any bound.
fn quadrature(event: &SampledGaussian, alpha: f64) -> Option<f64> {
    let q = event.rate().as_f64();
    let sigma = event.multiplier();
    let ln_slack = ln_up(2.0 + 2.0 * alpha * q);

    // The step, from an estimate of A − 1. A poor estimate costs accuracy or time, never validity.
    let exponent = ln_slack + LN_ACCURACY - ln_excess_guess(q, sigma, alpha);
    let exponent = exponent.clamp(LN_ACCURACY, 600.0);
    let strip = (3.0 * sigma).min(sqrt_up(2.0 * exponent));
    let reach = alpha / sigma + 2.0 * sqrt_up(2.0 * (exponent + LN_CUT));
    let step = (core::f64::consts::TAU * strip / (exponent + strip * strip / 2.0)).max(reach / f64::from(POINTS));
    let turns = core::f64::consts::TAU * strip / step;
    let ln_kappa = add_up(core::f64::consts::LN_2 + strip * strip / 2.0 + 1e-12, -ln_exp_m1_down(turns));
    if !step.is_finite() || ln_kappa.is_nan() || ln_kappa > -core::f64::consts::LN_2 {
        return None;
    }

    let integrand = Integrand { q, sigma, alpha };
    let mut sum = LogSum::EMPTY;
    let peak = alpha / sigma;
    let mut points = (0..2 * POINTS).map(|j| f64::from(j) * step);
    let ln_rest = points.find_map(|u| {
        integrand.add(u, &mut sum);
        let fall = step * (u - peak);
        if fall <= 0.0 {
            return None;
        }
        let ln_rest = integrand.ln_moment_term(u) - ln_exp_m1_down(fall);
        (ln_rest < sum.ln() - LN_CUT).then_some(ln_rest)
    })?;
    sum.add(ln_rest);

    let ln_left = ln_up(mul_up(alpha - 1.0, q));
    let ln_cut = sum.ln() - LN_CUT;
    let mut points = (1..2 * POINTS).map(|j| f64::from(j) * step);
    let ln_rest = points.find_map(|u| {
        integrand.add(-u, &mut sum);
        let ln_weight = ln_left - u * u / 2.0;
        if ln_weight > ln_cut + 5.0 {
            return None;
        }
        let ln_rest = ln_weight - ln_exp_m1_down(u * step);
        (ln_rest < ln_cut).then_some(ln_rest)
    })?;
    sum.add(ln_rest);

    // 1/(1−κ) ≤ e^{2κ} for κ ≤ 1/2.
    let widen = mul_up(2.0, exp_up(ln_kappa));
    // ln(h/√2π): ln √2π = 0.9189385332046727…, rounded down.
    let ln_step = sub_up(ln_up(step), 0.918_938_533_204_672_6);
    let mut excess = LogSum::EMPTY;
    excess.add(add_up(add_up(add_up(sum.ln(), ln_step), PADDING), widen));
    excess.add(add_up(add_up(ln_kappa, ln_slack), widen));
    Some(excess.ln_1p())
}

/// Estimates `ln(A_α − 1)` by the larger of the second-order term and the last binomial term.
fn ln_excess_guess(q: f64, sigma: f64, alpha: f64) -> f64 {
    let ln_exp_m1 = |t: f64| if t > 40.0 { t } else { ln_up(exp_m1_up(t)) };
    let inverse_variance = 1.0 / (sigma * sigma);
    let spread = ln_exp_m1(inverse_variance);
    // Below order 2, large ratios enter with the power α, not 2.
    let spread = if alpha < 2.0 { spread.min(0.0) } else { spread };
    let second = 2.0 * ln_up(q) + ln_up(alpha * (alpha - 1.0) / 2.0) + spread;
    let last = alpha * ln_up(q) + ln_exp_m1(alpha * (alpha - 1.0) / 2.0 * inverse_variance);
    if alpha > 2.0 && last > second { last } else { second }
}

/// Returns a lower bound of `ln(eᵗ − 1)`.
fn ln_exp_m1_down(t: f64) -> f64 {
    // The functions err upward by a few units. Subtracting 1e-14 relative to the argument compensates.
    if t > 40.0 { t - 1e-12 } else { ln_up(exp_m1_up(t)) - 1e-13 }
}

/// Integrand, up to the factor `1/√2π`.
struct Integrand {
    q: f64,
    sigma: f64,
    alpha: f64,
}

impl Integrand {
    fn exponent(&self, u: f64) -> f64 {
        (u - 0.5 / self.sigma) / self.sigma
    }

    /// Adds `e^{−u²/2} f(y)` at u.
    fn add(&self, u: f64, sum: &mut LogSum) {
        let ln_weight = -u * u / 2.0;
        let z = self.exponent(u);
        if z > FAR {
            // f < r^α
            sum.add(self.ln_moment_term(u));
            return;
        }
        let alpha = self.alpha;
        let y = self.q * exp_m1_up(z);
        if (alpha * y).abs() < 0.05 {
            // Binomial series of f. The omitted terms are below 1e-12 of it.
            let mut series = 1.0;
            for j in (2..10).rev() {
                let j = f64::from(j);
                series = 1.0 + series * y * (alpha - j) / (j + 1.0);
            }
            sum.add_scaled(mul_up(alpha * (alpha - 1.0) / 2.0 * series * y, y), ln_weight);
            return;
        }
        let ln_ratio = ln_1p_up(y);
        let ln_power = alpha * ln_ratio;
        if ln_power - ln_ratio > 50.0 {
            // f < r^α, with a difference below α e^−50 of it.
            sum.add(ln_weight + ln_power);
        } else if ln_power > 40.0 {
            // Here y > 0, and f = r^α (1 − (1 + αy)/r^α).
            sum.add(ln_weight + ln_power + ln_1p_up(-(1.0 + alpha * y) * exp_up(-ln_power)));
        } else {
            sum.add_scaled(exp_m1_up(ln_power) - alpha * y, ln_weight);
        }
    }

    /// Returns `ln(e^{−u²/2} r^α)` at u.
    fn ln_moment_term(&self, u: f64) -> f64 {
        let z = self.exponent(u);
        // Far out r = q e^z (1 + (1−q)/(q e^z)), with a last factor below 1 + e^{37 − z}.
        let ln_ratio = if z > FAR { add_up(z, ln_up(self.q)) } else { ln_1p_up(self.q * exp_m1_up(z)) };
        self.alpha * ln_ratio - u * u / 2.0
    }
}

/// Exponent from which the ratio is computed as `q e^z`.
const FAR: f64 = 600.0;
