//! Ordered sums of floats.
//!
//! Element `i` of a vector goes to lane `i mod 8`; each lane adds in index order; the fold is
//! `((0+4) + (2+6)) + ((1+5) + (3+7))`. The order depends on the index in the whole vector alone, so a vector handed over in
//! parts (one tensor of a network after the other) has the bits it has in one piece.

/// Number of interleaved accumulators.
pub const LANES: usize = 8;

/// Sum of squares of a vector that arrives in consecutive parts.
#[derive(Default)]
pub struct SumOfSquares {
    lanes: [f32; LANES],
    /// Lane of the next element.
    next: usize,
}

impl SumOfSquares {
    /// Adds the next elements of the vector.
    // Once where flash is short.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn add(&mut self, part: &[f32]) {
        // Up to the next multiple of 8 one by one, so that the rest vectorises.
        let (head, rest) = part.split_at(((LANES - self.next) % LANES).min(part.len()));
        self.add_each(head);
        let blocks = rest.chunks_exact(LANES);
        let tail = blocks.remainder();
        let mut lanes = self.lanes;
        for block in blocks {
            for (lane, x) in lanes.iter_mut().zip(block) {
                *lane += x * x;
            }
        }
        self.lanes = lanes;
        self.add_each(tail);
    }

    /// As [`add`](Self::add); also `[Σ x², Σ |x|]` of this part alone, whose order is not fixed.
    #[inline(always)]
    pub(crate) fn add_measured(&mut self, part: &[f32]) -> [f32; 2] {
        let (head, rest) = part.split_at(((LANES - self.next) % LANES).min(part.len()));
        self.add_each(head);
        let blocks = rest.chunks_exact(LANES);
        let tail = blocks.remainder();
        // Three sums abreast: each addition waits for the one before it.
        let (mut lanes, mut squares, mut sizes) = (self.lanes, [0f32; LANES], [0f32; LANES]);
        for block in blocks {
            for (((lane, square), size), x) in lanes.iter_mut().zip(&mut squares).zip(&mut sizes).zip(block) {
                *lane += x * x;
                *square += x * x;
                *size += x.abs();
            }
        }
        self.lanes = lanes;
        self.add_each(tail);
        let mut measured = [0f32; 2];
        for (square, size) in squares.into_iter().zip(sizes).chain(head.iter().chain(tail).map(|x| (x * x, x.abs()))) {
            measured = [measured[0] + square, measured[1] + size];
        }
        measured
    }

    #[inline(always)]
    fn add_each(&mut self, part: &[f32]) {
        for x in part {
            if let Some(lane) = self.lanes.get_mut(self.next) {
                *lane += x * x;
            }
            self.next = (self.next + 1) % LANES;
        }
    }

    /// The sum.
    #[must_use]
    pub fn total(&self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.lanes;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
}

/// Sum of squares of the vector whose consecutive parts are `parts`.
#[must_use]
#[cfg_attr(target_pointer_width = "64", inline(always))]
pub fn sum_of_squares<'a>(parts: impl Iterator<Item = &'a [f32]>) -> f32 {
    let mut sum = SumOfSquares::default();
    for part in parts {
        sum.add(part);
    }
    sum.total()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(x: &[f32]) -> f32 {
        let mut lanes = [0f32; 8];
        for (i, x) in x.iter().enumerate() {
            lanes[i % 8] += x * x;
        }
        let l = lanes;
        ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
    }

    proptest! {
        // The sum of squares of split slices has the bits of the whole slice.
        #[test]
        fn split_input_has_same_bits(
            x in prop::collection::vec(-1e3f32..1e3, 0..200), a in 0usize..200, b in 0usize..200,
        ) {
            let (a, b) = (a.min(x.len()), b.min(x.len()));
            let (a, b) = (a.min(b), a.max(b));
            let whole = sum_of_squares([&x[..]].into_iter());
            prop_assert_eq!(whole.to_bits(), reference(&x).to_bits());
            prop_assert_eq!(whole.to_bits(), sum_of_squares([&x[..a], &x[a..b], &x[b..]].into_iter()).to_bits());
        }
    }
}
