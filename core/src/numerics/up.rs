//! Upward-rounded `f64` arithmetic for privacy figures: an ε may only err upward.
//!
//! Every function returns a value that is at least the exact result for the arguments given (directed arguments are the
//! caller's business), and at most a few units in the last place above it. Sums, products and quotients are rounded to
//! nearest by the processor and then moved one step up, which covers their half unit. `libm` states errors below one
//! unit for its logarithms and exponentials; they are moved two steps up, and committed vectors check both sides.
//!
//! NaN in gives NaN out, +∞ stays. This is the only place where accounting calls `libm`.

/// The next larger `f64`; NaN and +∞ stay as they are.
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

/// The next smaller `f64`; NaN and −∞ stay as they are.
pub const fn next_down(x: f64) -> f64 {
    -next_up(-x)
}

/// `a + b`, rounded up.
pub fn add_up(a: f64, b: f64) -> f64 {
    next_up(a + b)
}

/// `a − b`, rounded up.
pub fn sub_up(a: f64, b: f64) -> f64 {
    next_up(a - b)
}

/// `a · b`, rounded up.
pub fn mul_up(a: f64, b: f64) -> f64 {
    next_up(a * b)
}

/// `a / b`, rounded up.
pub fn div_up(a: f64, b: f64) -> f64 {
    next_up(a / b)
}

/// `√a`, rounded up.
pub fn sqrt_up(a: f64) -> f64 {
    next_up(libm::sqrt(a))
}

/// `eˣ`, rounded up; never 0.
pub fn exp_up(x: f64) -> f64 {
    next_up(next_up(libm::exp(x)))
}

/// `eˣ − 1`, rounded up.
pub fn exp_m1_up(x: f64) -> f64 {
    next_up(next_up(libm::expm1(x)))
}

/// `ln x`, rounded up; −∞ at 0 becomes the smallest finite number.
pub fn ln_up(x: f64) -> f64 {
    next_up(next_up(libm::log(x)))
}

/// `ln(1 + x)`, rounded up.
pub fn ln_1p_up(x: f64) -> f64 {
    next_up(next_up(libm::log1p(x)))
}

/// The smallest `f64` that is at least `n`.
pub const fn from_u64_up(n: u64) -> f64 {
    let nearest = n as f64;
    // Above 2^63 the nearest may be 2^64 itself, which a u64 cannot hold: compare in u128.
    if (nearest as u128) < n as u128 {
        next_up(nearest)
    } else {
        nearest
    }
}

/// The logarithm of a sum of positive terms given by their logarithms, rounded up, in one pass and without overflow.
///
/// The sum is kept as `sum · e^max`, `max` being the largest logarithm so far.
#[derive(Clone, Copy, Debug)]
pub struct LogSum {
    max: f64,
    sum: f64,
}

impl LogSum {
    /// The empty sum.
    pub const EMPTY: Self = Self {
        max: f64::NEG_INFINITY,
        sum: 0.0,
    };

    /// Adds a term `e^ln_term`. −∞ (a term of 0) adds nothing; +∞ makes the sum infinite.
    pub fn add(&mut self, ln_term: f64) {
        if ln_term == f64::NEG_INFINITY || self.max == f64::INFINITY {
            return;
        }
        if ln_term <= self.max {
            self.sum = add_up(self.sum, exp_up(sub_up(ln_term, self.max)));
        } else {
            let kept = if self.sum > 0.0 {
                mul_up(self.sum, exp_up(sub_up(self.max, ln_term)))
            } else {
                0.0
            };
            self.sum = add_up(kept, 1.0);
            self.max = ln_term;
        }
    }

    /// `ln Σ`, rounded up; −∞ for the empty sum.
    pub fn ln(&self) -> f64 {
        if self.sum > 0.0 && self.max < f64::INFINITY {
            add_up(self.max, ln_up(self.sum))
        } else {
            self.max
        }
    }

    /// `ln(1 + Σ)`, rounded up, without cancellation for a small Σ; 0 for the empty sum.
    pub fn ln_1p(&self) -> f64 {
        if self.sum == 0.0 {
            0.0
        } else if self.max == f64::INFINITY {
            self.max
        } else if self.max > 600.0 {
            add_up(self.max, ln_up(add_up(self.sum, exp_up(-self.max))))
        } else {
            ln_1p_up(mul_up(self.sum, exp_up(self.max)))
        }
    }
}
