//! Ordered sums of floats.
//!
//! ```
//! use damper_core::numerics::reduce::{SumOfSquares, sum_of_squares};
//!
//! let vector: Vec<f32> = (0..3000).map(|i| i as f32 / 100.0).collect();
//! // Parts of any lengths give the bits of the whole.
//! let whole = sum_of_squares([&vector[..]].into_iter());
//! assert_eq!(sum_of_squares(vector.chunks(7)), whole);
//! let mut sum = SumOfSquares::default();
//! vector.chunks(1000).for_each(|part| sum.add(part));
//! assert_eq!(sum.take(), whole);
//! ```
//!
//! A vector is summed in blocks of 1,024 elements. In a block, element `i` of the vector goes to lane `i mod 8`, and
//! each lane adds f32s in index order. The fold is `((0+4) + (2+6)) + ((1+5) + (3+7))`. The totals of the blocks are
//! added in index order, with the rounding error in a second f32 (Knuth's two-sum):
//!
//! ```text
//! s = F(h + t)    b = F(s − h)    l ← F(l + F(F(h − F(s − b)) + F(t − b)))    h ← s          the sum is F(h + l)
//! ```
//!
//! The order depends only on the index in the whole vector. A vector that arrives in parts, such as one tensor of a
//! network after another, therefore has the bits of the whole vector.
//!
//! A vector of millions of elements loses no squares this way, and blocks can be summed separately. A second f32 is as
//! exact as an f64 here. An f64 takes 1.3 KB of flash on a Cortex-M4F, and is slow on most graphics cards.

/// Number of interleaved accumulators.
pub const LANES: usize = 8;
/// Number of elements that are summed in f32.
pub const BLOCK: usize = 1024;

/// Sum of squares of a vector that arrives in consecutive parts.
#[derive(Default)]
pub struct SumOfSquares {
    /// Sums of the last block.
    lanes: [f32; LANES],
    /// Number of elements in the last block.
    len: usize,
    /// Sum of the blocks before it: `[h, l]`.
    blocks: [f32; 2],
}

impl SumOfSquares {
    /// Adds the next elements of the vector.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn add(&mut self, part: &[f32]) {
        let mut rest = part;
        loop {
            let (here, after) = rest.split_at(BLOCK.wrapping_sub(self.len).min(rest.len()));
            self.add_to_block(here);
            if after.is_empty() {
                break;
            }
            // The block is full, and more elements follow.
            self.end_block();
            rest = after;
        }
    }

    /// Adds elements that all fit the block.
    #[inline(always)]
    fn add_to_block(&mut self, part: &[f32]) {
        let Self { lanes, len, .. } = self;
        let mut rest = part;
        loop {
            // From a multiple of 8 on, eight at a time, which vectorises.
            if len.is_multiple_of(LANES) {
                let before = rest.len();
                while let Some((eight, after)) = rest.split_first_chunk::<LANES>() {
                    for (lane, x) in lanes.iter_mut().zip(eight) {
                        *lane += x * x;
                    }
                    rest = after;
                }
                *len += before - rest.len();
            }
            let Some((x, after)) = rest.split_first() else { break };
            if let Some(lane) = lanes.get_mut(*len % LANES) {
                *lane += x * x;
            }
            *len += 1;
            rest = after;
        }
    }

    /// Adds the last block to the previous blocks.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn end_block(&mut self) {
        let [a, b, c, d, e, f, g, h] = core::mem::take(&mut self.lanes);
        let block = ((a + e) + (c + g)) + ((b + f) + (d + h));
        let [high, low] = self.blocks;
        let sum = high + block;
        let back = sum - high;
        self.blocks = [sum, low + ((high - (sum - back)) + (block - back))];
        self.len = 0;
    }

    /// Returns the sum and resets it. If the sum is not finite, the result is any non-finite value.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn take(&mut self) -> f32 {
        self.end_block();
        let [high, low] = core::mem::take(&mut self.blocks);
        high + low
    }
}

/// Returns the sum of squares of a vector in consecutive `parts`.
#[must_use]
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn sum_of_squares<'a>(parts: impl Iterator<Item = &'a [f32]>) -> f32 {
    let mut sum = SumOfSquares::default();
    for part in parts {
        sum.add(part);
    }
    sum.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(x: &[f32]) -> f32 {
        let (mut high, mut low) = (0f32, 0f32);
        for block in x.chunks(1024) {
            let mut l = [0f32; 8];
            for (i, x) in block.iter().enumerate() {
                l[i % 8] += x * x;
            }
            let block = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
            // The rounding error of a sum of two f32s is an f32, and f64 represents it exactly.
            let sum = high + block;
            low += ((f64::from(high) - f64::from(sum)) + f64::from(block)) as f32;
            high = sum;
        }
        high + low
    }

    proptest! {
        // The sum of squares of split slices has the bits of the whole slice.
        #[test]
        fn split_input_has_same_bits(
            x in prop::collection::vec(-1e3f32..1e3, 0..5000), a in 0usize..5000, b in 0usize..5000,
        ) {
            let (a, b) = (a.min(x.len()), b.min(x.len()));
            let (a, b) = (a.min(b), a.max(b));
            let whole = sum_of_squares([&x[..]].into_iter());
            prop_assert_eq!(whole.to_bits(), reference(&x).to_bits());
            prop_assert_eq!(whole.to_bits(), sum_of_squares([&x[..a], &x[a..b], &x[b..]].into_iter()).to_bits());
        }
    }
}
