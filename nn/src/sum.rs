//! Order of every sum.
//!
//! The terms of a sum have an order, which each kernel states. They are split into blocks of [`BLOCK`] terms. Within a
//! block, terms are added one after another, starting from +0. The sums of the blocks are also added one after another,
//! starting from +0. Each addition and each product is rounded to f32, to nearest, ties to even. Subnormal numbers are
//! kept.
//!
//! With blocks, the rounding error of a long sum grows with `64 + n / 64` instead of `n` (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 2nd ed., section 4.2). Different entries of the same output, such as those of a
//! matrix product, are independent sums. SIMD lanes compute such sums in parallel, so the SIMD width changes no bit.

/// Number of terms in a block.
pub const BLOCK: usize = 64;

/// State of a sum in the defined order.
///
/// ```
/// use damper_nn::sum::Sum;
///
/// let mut sum = Sum::default();
/// (0..1000).for_each(|i| sum.add(i as f32));
/// assert_eq!(sum.value(), 499_500.0);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum {
    whole: f32,
    block: f32,
    terms: usize,
}

impl Sum {
    /// Adds the next term.
    #[inline(always)]
    pub fn add(&mut self, term: f32) {
        self.block += term;
        self.terms += 1;
        if self.terms == BLOCK {
            self.whole += self.block;
            (self.block, self.terms) = (0.0, 0);
        }
    }

    /// Returns the sum of the terms added so far.
    #[inline(always)]
    #[must_use]
    pub fn value(self) -> f32 {
        self.whole + self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected value adds blocks as the definition states.
    #[test]
    fn sum_is_that_of_blocks() {
        let mut random = damper_testing::Random(3);
        for len in [0, 1, 63, 64, 65, 128, 129, 1000] {
            let terms: std::vec::Vec<f32> = (0..len).map(|_| random.below(1 << 20) as f32 * 1e-3 - 500.0).collect();
            let mut sum = Sum::default();
            terms.iter().for_each(|term| sum.add(*term));
            let mut whole = 0.0f32;
            for block in terms.chunks(BLOCK) {
                let mut part = 0.0f32;
                for term in block {
                    part += term;
                }
                whole += part;
            }
            assert_eq!(sum.value().to_bits(), whole.to_bits());
        }
    }

    // A sum of zeros of either sign is +0. NaN and infinity propagate.
    #[test]
    fn sum_of_unusual_terms_is_defined() {
        let of = |terms: &[f32]| {
            let mut sum = Sum::default();
            terms.iter().for_each(|term| sum.add(*term));
            sum.value()
        };
        assert_eq!(of(&[-0.0, -0.0]).to_bits(), 0);
        assert_eq!(of(&[]).to_bits(), 0);
        assert!(of(&[1.0, f32::NAN]).is_nan() && of(&[f32::INFINITY, f32::NEG_INFINITY]).is_nan());
        assert_eq!(of(&[f32::INFINITY, 1.0]), f32::INFINITY);
    }
}
