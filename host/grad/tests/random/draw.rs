//! A fixed sequence of random numbers (SplitMix64), so that a seed names a network for ever.

use damper_testing::Random;

pub struct SplitMix(Random);

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        Self(Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    /// A whole number from `low` to `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number in (−1, 1), exact in f32.
    pub fn unit(&mut self) -> f32 {
        self.0.signed()
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// The numbers below `n` in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}
