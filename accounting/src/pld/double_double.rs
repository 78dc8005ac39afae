//! Double-double arithmetic for tests of rounding errors: sums of two `f64` with a hundred binary digits, and
//! convolutions term by term. Source: Dekker, "A floating-point technique for extending the available precision",
//! Numerische Mathematik 18, 1971.

/// `high + low`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoubleDouble {
    high: f64,
    low: f64,
}

impl DoubleDouble {
    pub const ZERO: Self = Self { high: 0.0, low: 0.0 };
    pub const ONE: Self = Self { high: 1.0, low: 0.0 };

    /// `a + b`, exactly.
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let kept = high - a;
        Self { high, low: (a - (high - kept)) + (b - kept) }
    }

    /// `a · b`, exactly.
    pub fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    pub fn plus(self, other: Self) -> Self {
        let Self { high, low } = Self::sum(self.high, other.high);
        Self::sum(high, low + self.low + other.low)
    }

    pub fn times(self, other: Self) -> Self {
        let Self { high, low } = Self::product(self.high, other.high);
        Self::sum(high, low + (self.high * other.low + self.low * other.high))
    }

    /// The difference from an `f64`.
    pub fn minus(self, other: f64) -> f64 {
        (self.high - other) + self.low
    }
}

/// The convolution modulo the length, term by term.
pub(super) fn convolved(a: &[DoubleDouble], b: &[DoubleDouble]) -> Vec<DoubleDouble> {
    let len = a.len();
    let at = |k: usize| (0..len).fold(DoubleDouble::ZERO, |sum, i| sum.plus(a[i].times(b[(len + k - i) % len])));
    (0..len).map(at).collect()
}

/// The convolution power of `mass` with exponent `times`, at least 1.
pub(super) fn power_of(mass: &[DoubleDouble], times: u64) -> Vec<DoubleDouble> {
    let mut found = mass.to_vec();
    for digit in (0..times.ilog2()).rev() {
        found = convolved(&found, &found);
        if times >> digit & 1 == 1 {
            found = convolved(&found, mass);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_f64_rounds_off_is_kept() {
        let third = DoubleDouble::product(1.0 / 3.0, 1.0);
        let square = third.times(third).plus(DoubleDouble::product(-1.0 / 3.0, 1.0 / 3.0));
        assert_eq!((square.high, square.low), (0.0, 0.0));
        assert_eq!(DoubleDouble::ONE.plus(DoubleDouble::product(1e-25, 1.0)).minus(1.0), 1e-25);
    }

    // Ten convolutions of a fair two-point distribution give the binomial distribution.
    #[test]
    fn power_of_two_points_is_binomial() {
        let half = DoubleDouble::product(0.5, 1.0);
        let mut mass = vec![DoubleDouble::ZERO; 16];
        (mass[0], mass[1]) = (half, half);
        let law = power_of(&mass, 10);
        for (at, ways) in [1.0, 10.0, 45.0, 120.0, 210.0, 252.0].into_iter().enumerate() {
            assert_eq!(law[at].minus(ways / 1024.0), 0.0);
        }
    }
}
