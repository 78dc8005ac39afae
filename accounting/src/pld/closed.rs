//! The exact privacy cost of Gaussian releases without sampling, and of one draw.
//!
//! They are one Gaussian, moved by `μ = √Σ 1/σ²` standard deviations. Its privacy loss is normal with mean `μ²/2` and
//! variance `μ²`. With `z = ε/μ − μ/2` and the normal density φ,
//!
//! ```text
//! δ(ε)  =  ∫₀^∞ φ(z + t)(1 − e^{−μt}) dt  =  φ(z) ∫₀^∞ e^{−zt − t²/2}(1 − e^{−μt}) dt
//! ```
//!
//! All terms are positive, so no digits cancel, for any δ that is a float. The integral is a sum over intervals on
//! which the exponent changes little, by a Gauss-Legendre rule. Its relative error, with the roundings, is below
//! [`ERROR`].

use super::bound::Bound;
use super::gaussian::{legendre, ln_normal};
use damper_core::accounting::event::Rate;
use libm::{exp, expm1, log, log1p, sqrt};

/// A bound on the relative error of δ, in multiples of `1 + z²`.
const ERROR: f64 = 1e-12;
/// The integrand is left out when its exponent is this far below that of the largest part.
const FAR: f64 = 45.0;
/// A few units in the last place.
const FEW: f64 = 16.0 * f64::EPSILON;
/// Relative distance of the ends of the search for ε, and the largest number of rounds.
const CLOSE: f64 = 1e-11;
const ROUNDS: usize = 400;

/// `ln δ` at ε of a Gaussian moved by `shift` standard deviations, as a bound.
pub(super) fn ln_delta(shift: f64, epsilon: f64, bound: Bound) -> f64 {
    let z = epsilon / shift - shift / 2.0;
    // From the largest exponent at `max(0, −z)`, it falls at least as fast as t²/2 and as zt.
    let (start, fall) = ((-z - 10.0).max(0.0), z.max(0.0));
    let end = (-z).max(0.0) + f64::min(sqrt(2.0 * FAR), FAR / fall.max(1e-300));
    let top = (-z).max(0.0);
    let most = -z * top - top * top / 2.0;
    let value = |t: f64| exp(-z * t - t * t / 2.0 - most) * -expm1(-shift * t);
    // Up to here the last factor changes.
    let middle = (FAR / shift).clamp(start, end);
    let sum =
        integral(start, middle, 0.5 / (1.0 + fall + shift), value) + integral(middle, end, 0.5 / (1.0 + fall), value);
    let error = ERROR * (1.0 + z * z) + 16.0 * f64::EPSILON * z.abs() * (epsilon / shift + shift);
    let found = ln_normal(z) + most + log(sum);
    // The part that is left out is below 1e-18 of the sum.
    if bound == Bound::Upper { (found + error).min(0.0) } else { found - error }
}

/// The integral over intervals of at most this width.
fn integral(start: f64, end: f64, width: f64, value: impl Fn(f64) -> f64) -> f64 {
    let count = ((end - start) / width).ceil();
    let width = (end - start) / count.max(1.0);
    let rule = legendre();
    let interval = |k: u64| {
        let from = start + k as f64 * width;
        rule.iter().map(|(x, weight)| weight * value(from + width * (1.0 + x) / 2.0)).sum::<f64>()
    };
    (0..count as u64).map(interval).sum::<f64>() * width / 2.0
}

/// `ln δ` at ε of one Poisson draw of such a Gaussian, as a bound: the larger of both directions.
///
/// With `γ = e^ε`, they are `q·H` of the Gaussian at `1 + (γ − 1)/q`, and `t·H` at `γq/t`. Here
/// `t = q − (1 − q)(γ − 1)`. The second grows with t, and is 0 without a positive t.
pub(super) fn ln_delta_of_draw(shift: f64, rate: Rate, epsilon: f64, bound: Bound) -> f64 {
    if rate == Rate::ONE {
        return ln_delta(shift, epsilon, bound);
    }
    let sign = if bound == Bound::Upper { 1.0 } else { -1.0 };
    let (q, out, above) = (rate.as_f64(), rate.complement().as_f64(), expm1(epsilon));
    let removed = log1p(above / q) * (1.0 - sign * FEW);
    let first = log(q) + ln_delta(shift, removed, bound);
    let rest = q - out * above + sign * FEW * (q + above);
    if !(rest > 0.0 && above.is_finite()) {
        return first + sign * FEW * first.abs();
    }
    let added = (epsilon + log(q / rest)) - sign * FEW * (epsilon + log(q / rest).abs() + 1.0);
    let second = log(rest) + ln_delta(shift, added.max(0.0), bound);
    let larger = first.max(second);
    larger + sign * FEW * larger.abs()
}

/// ε at `delta` of one Poisson draw of a Gaussian moved by `shift` standard deviations, as a bound.
pub(super) fn epsilon(shift: f64, rate: Rate, delta: f64, bound: Bound) -> f64 {
    let target = log(delta);
    let above = |epsilon: f64| ln_delta_of_draw(shift, rate, epsilon, bound) - target;
    let first = above(0.0);
    if first <= 0.0 {
        return 0.0;
    }
    // δ is above the target at `low`, and not at `high`. The Illinois variant of regula falsi, or a bisection if it
    // does not halve the distance in three rounds.
    let end = shift * shift / 2.0 + shift * (1.0 + sqrt(2.0 * (1.0 - target)));
    let (mut low, mut high) = ((0.0, first), (end, above(end).min(-f64::MIN_POSITIVE)));
    let (mut width, mut slow, mut moved_low) = (end, 0, true);
    for _ in 0..ROUNDS {
        if high.0 - low.0 <= CLOSE * high.0 {
            break;
        }
        let share = low.1 / (low.1 - high.1);
        // A little past the root, so that the other end moves.
        let past = 0.25 * CLOSE * high.0 / (high.0 - low.0) * if moved_low { 1.0 } else { -1.0 };
        let share = if slow < 3 && share.is_finite() { (share + past).clamp(0.0, 1.0) } else { 0.5 };
        let middle = low.0 + share * (high.0 - low.0);
        let value = above(middle);
        // An end that stays counts half.
        let is_low = value > 0.0;
        if is_low {
            low = (middle, value);
            high.1 *= if moved_low { 0.5 } else { 1.0 };
        } else {
            high = (middle, value);
            low.1 *= if moved_low { 1.0 } else { 0.5 };
        }
        moved_low = is_low;
        slow += 1;
        if high.0 - low.0 <= width / 2.0 {
            (width, slow) = (high.0 - low.0, 0);
        }
    }
    if bound == Bound::Upper { high.0 } else { low.0 }
}

#[cfg(test)]
mod tests;
