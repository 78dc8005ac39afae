//! Rounded sums of exact products of coefficients over 2³⁰ and 64-bit integers, computed in 64 bits.

/// Fractional bits of a coefficient.
pub(super) const UNIT: u32 = 30;
const MASK: i64 = (1 << UNIT) - 1;

/// Sum of products, `high·2³⁰ + low`.
#[derive(Clone, Copy, Default)]
pub(super) struct Products {
    high: i64,
    low: i64,
}

impl Products {
    /// Adds `coefficient · x`. The coefficient is at most 2³⁰, and |x| below 2⁶¹.
    #[inline(always)]
    pub(super) fn add(&mut self, coefficient: u32, x: i64) {
        let low = i64::from(coefficient) * (x & MASK);
        self.high = self.high.wrapping_add(i64::from(coefficient).wrapping_mul(x >> UNIT)).wrapping_add(low >> UNIT);
        self.low += low & MASK;
        // Carries at once, so the low part stays small for any number of products.
        self.high = self.high.wrapping_add(self.low >> UNIT);
        self.low &= MASK;
    }

    /// Returns `rnd(sum, 30 + bits)`, with ties rounded up.
    #[inline(always)]
    pub(super) fn round(self, bits: u32) -> i64 {
        let half = 1i64 << (UNIT + bits - 1);
        // A floor of a floor is the floor of the whole quotient.
        self.high.wrapping_add((self.low + half) >> UNIT) >> bits
    }
}

/// Returns `⌊x·2³⁰⌋` of a number from 0 to 1, else `None`.
pub(super) fn rounded_down(x: f64) -> Option<u32> {
    // Exact, because the factor is a power of two.
    (0.0..=1.0).contains(&x).then(|| (x * f64::from(1u32 << UNIT)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // The result equals plain arithmetic in 128 bits.
        #[test]
        fn rounding_equals_wide_arithmetic(
            terms in prop::collection::vec((0u32..=1 << 30, -(1i64 << 58)..1 << 58), 1..9), bits in 0u32..=10,
        ) {
            let mut products = Products::default();
            let mut wide = 0i128;
            for (coefficient, x) in terms {
                // The coefficients sum to at most 1, as those of scales.
                let coefficient = coefficient / 8;
                products.add(coefficient, x);
                wide += i128::from(coefficient) * i128::from(x);
            }
            let shift = 30 + bits;
            prop_assert_eq!(i128::from(products.round(bits)), (wide + (1i128 << (shift - 1))) >> shift);
        }
    }

    #[test]
    fn coefficients_are_rounded_down() {
        assert_eq!((rounded_down(0.5), rounded_down(1.0), rounded_down(0.0)), (Some(1 << 29), Some(1 << 30), Some(0)));
        assert_eq!(rounded_down(0.1), Some(107_374_182));
        assert_eq!((rounded_down(1.1), rounded_down(-0.1), rounded_down(f64::NAN)), (None, None, None));
    }
}
