//! Upward-rounded `f64` arithmetic for privacy costs: an ε may only err upward.
//!
//! ```
//! use damper_core::numerics::up::*;
//!
//! assert!(next_down(1.0) < 1.0 && next_up(1.0) == 1.0 + f64::EPSILON);
//! assert!(add_up(0.1, 0.2) >= 0.3 && sub_up(0.3, 0.1) >= 0.2);
//! assert!(mul_up(0.1, 3.0) >= 0.3 && div_up(1.0, 3.0) * 3.0 >= 1.0);
//! assert!(sqrt_up(2.0) * sqrt_up(2.0) >= 2.0 && exp_up(1.0) > 2.718_281_828_459_045);
//! assert!(exp_m1_up(1e-9) > 1e-9 && ln_up(2.0) > 0.693_147_180_559_945 && ln_1p_up(1.0) >= ln_up(2.0) - 1e-15);
//! assert_eq!(from_u64_up(5), 5.0);
//! assert!(from_u64_up(u64::MAX) as u64 >= u64::MAX);
//! ```
//!
//! Every function returns a value that is at least the exact result for its arguments, and at most a few units in the
//! last place above it. The caller must round the arguments in the right direction. The processor rounds sums, products
//! and quotients to nearest. One step up then covers their half unit. `libm` states errors below one unit for its
//! logarithms and exponentials. They are moved two steps up, and committed vectors check both sides.
//!
//! NaN gives NaN, and +∞ stays. This is the only accounting module that calls `libm`.
#![allow(clippy::disallowed_methods)] // This module may call `libm`.

use super::scalar;

/// Returns the next larger `f64`. NaN and +∞ are unchanged.
// Not inlined on small targets, as sums, products and quotients below. An accountant calls them most.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub const fn next_up(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    let bits = x.to_bits();
    if x == 0.0 {
        f64::from_bits(1)
    } else if x > 0.0 {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits - 1)
    }
}

/// Returns the next smaller `f64`. NaN and −∞ are unchanged.
pub const fn next_down(x: f64) -> f64 {
    -next_up(-x)
}

/// Returns `a + b`, rounded up.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn add_up(a: f64, b: f64) -> f64 {
    next_up(a + b)
}

/// Returns `a − b`, rounded up.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn sub_up(a: f64, b: f64) -> f64 {
    next_up(a - b)
}

/// Returns `a · b`, rounded up.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn mul_up(a: f64, b: f64) -> f64 {
    next_up(a * b)
}

/// Returns `a / b`, rounded up.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn div_up(a: f64, b: f64) -> f64 {
    next_up(a / b)
}

/// Returns `√a`, rounded up.
pub fn sqrt_up(a: f64) -> f64 {
    next_up(scalar::sqrt(a))
}

/// Returns `eˣ`, rounded up. Never 0.
pub fn exp_up(x: f64) -> f64 {
    next_up(next_up(scalar::exp(x)))
}

/// Returns `eˣ − 1`, rounded up.
pub fn exp_m1_up(x: f64) -> f64 {
    next_up(next_up(libm::expm1(x)))
}

/// Returns `ln x`, rounded up. −∞ at 0 becomes the smallest finite number.
pub fn ln_up(x: f64) -> f64 {
    next_up(next_up(libm::log(x)))
}

/// Returns `ln(1 + x)`, rounded up.
pub fn ln_1p_up(x: f64) -> f64 {
    next_up(next_up(libm::log1p(x)))
}

/// Returns the smallest `f64` that is at least `n`.
pub const fn from_u64_up(n: u64) -> f64 {
    let nearest = n as f64;
    // Exact, except for 2^64, which becomes the largest u64. That is not below any n.
    if (nearest as u64) < n { next_up(nearest) } else { nearest }
}

/// Logarithm of a sum of positive terms, rounded up, in one pass and without overflow.
///
/// The sum is stored as `sum · e^scale`. The scale changes only for a term far above it. The exponential of the last
/// scale is cached, so a run of terms at one scale costs one multiplication each.
///
/// A term `f·e^l` with `l` above `scale + 200`, or the first term, sets the scale to `l`. The sum becomes
/// `sum ⊗ exp(scale ⊖ l)`, or 0 if it was empty, and `f ⊗ 1` is added. Every other term adds `f ⊗ exp(l ⊖ scale)`. The
/// result is `ln Σ = scale ⊕ ln(sum)`. `ln(1 + Σ)` is `ln Σ ⊕ exp(−ln Σ)` above 600, and `ln_1p(exp(ln Σ))` below.
///
/// ```
/// use damper_core::numerics::up::LogSum;
///
/// // ln(e¹⁰⁰⁰ + e¹⁰⁰⁰ + 2·e¹⁰⁰⁰), whose terms are not finite.
/// let mut sum = LogSum::EMPTY;
/// sum.add(1000.0);
/// sum.add(1000.0);
/// sum.add_scaled(2.0, 1000.0);
/// assert!((sum.ln() - (1000.0 + 4f64.ln())).abs() < 1e-9);
/// assert!(sum.ln_1p() >= sum.ln());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogSum {
    scale: f64,
    sum: f64,
    last_scale: f64,
    last_factor: f64,
}

impl LogSum {
    /// Empty sum.
    pub const EMPTY: Self = Self { scale: f64::NEG_INFINITY, sum: 0.0, last_scale: 0.0, last_factor: 0.0 };
    /// Largest distance of a term's scale above the sum's scale.
    const HEADROOM: f64 = 200.0;

    /// Adds a term `e^ln_term`. −∞ (a term of 0) adds nothing, and +∞ makes the sum infinite.
    pub fn add(&mut self, ln_term: f64) {
        self.add_scaled(1.0, ln_term);
    }

    /// Adds a term `factor · e^ln_scale`, with `factor` above 0 and at most 1e130. The range of the sum covers the
    /// rest.
    pub fn add_scaled(&mut self, factor: f64, ln_scale: f64) {
        if ln_scale == f64::NEG_INFINITY || self.scale == f64::INFINITY {
            return;
        }
        if ln_scale == f64::INFINITY || ln_scale > self.scale + Self::HEADROOM {
            let kept = if self.sum > 0.0 { mul_up(self.sum, exp_up(sub_up(self.scale, ln_scale))) } else { 0.0 };
            *self = Self { scale: ln_scale, sum: kept, last_scale: ln_scale, last_factor: 1.0 };
        } else if ln_scale != self.last_scale {
            self.last_scale = ln_scale;
            self.last_factor = exp_up(sub_up(ln_scale, self.scale));
        }
        self.sum = add_up(self.sum, mul_up(factor, self.last_factor));
    }

    /// Returns `ln Σ`, rounded up, or −∞ for the empty sum.
    pub fn ln(&self) -> f64 {
        if self.sum > 0.0 && self.scale < f64::INFINITY { add_up(self.scale, ln_up(self.sum)) } else { self.scale }
    }

    /// Returns `ln(1 + Σ)`, rounded up, without cancellation for a small Σ. Returns 0 for the empty sum.
    pub fn ln_1p(&self) -> f64 {
        let ln = self.ln();
        if ln == f64::NEG_INFINITY {
            0.0
        } else if ln > 600.0 {
            add_up(ln, exp_up(-ln))
        } else {
            ln_1p_up(exp_up(ln))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_up_and_down_step_one_ulp() {
        for x in [0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, f64::MAX, -f64::MAX] {
            assert!(next_up(x) > x && next_down(x) < x);
            assert_eq!(next_down(next_up(x)), if x == f64::MAX { f64::MAX } else { x });
        }
        assert_eq!(next_up(f64::MAX), f64::INFINITY);
        assert_eq!(next_up(f64::INFINITY), f64::INFINITY);
        assert_eq!(next_up(f64::NEG_INFINITY), -f64::MAX);
        assert!(next_up(f64::NAN).is_nan() && next_down(f64::NAN).is_nan());
    }

    // An integer converts to the smallest f64 that is at least as large.
    #[test]
    fn from_u64_up_rounds_up() {
        const TWO_53: u64 = 1 << 53;
        for (count, number) in [
            (0, 0.0),
            (TWO_53 - 1, 9_007_199_254_740_991.0),
            (TWO_53 + 1, 9_007_199_254_740_994.0),
            (TWO_53 + 2, 9_007_199_254_740_994.0),
            (u64::MAX, 18_446_744_073_709_551_616.0),
        ] {
            assert_eq!(from_u64_up(count), number);
        }
    }
}
