//! Counts of samples: what thresholds learn from.
//!
//! A threshold asks a [`Query`] of each step; the core counts, so that a sample moves one count by exactly one whatever the
//! rule, and releases the counts with noise of their own beside the gradient. Both come from one draw and are priced as one
//! event: `1/σ² = 1/σ_T² + 1/σ_H²` (DC-SGD, theorem 2).
//!
//! # Memory
//!
//! One `i32` a count, in the open step and in each of its shards; none for a rule that counts nothing.
//!
//! # Numerics
//!
//! The bin of a norm `n` is `F(n·F(b/R))` cut to an integer, at most `b − 1`: at an edge it may differ by one from that of
//! the exact quotient. A count of 1 is [`UNIT`] grid units; the noise is a discrete Gaussian with an integer σ on that grid,
//! drawn in the order of the counts at the address (counts, step, chunk 0). Counts wrap like the sum of gradients, and far
//! above any batch. Released counts are f64, exact.
//!
//! # Timing
//!
//! Which counter a sample moves, an address, depends on its norm, and on which side of [`Query::Above`] it lies may be a branch.
//!
//! # Privacy
//!
//! One sample added or removed moves one count by one: sensitivity 1 in the Euclidean norm.

pub mod held_out;

use crate::error::ConfigError;
use crate::noise::{discrete_gaussian, sealed};
use crate::numerics::round::{ceil, exactly};
use core::num::NonZeroU32;
use rand_core::Rng;

/// Grid units of a count of 1.
pub const UNIT: u32 = 1 << 12;

/// The counts of a step: each sample is counted by the norm of its combined, unclipped gradient.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Query {
    /// Nothing is counted.
    None,
    /// A histogram of `bins` equal bins over `[0, range)`; the last also takes every larger norm.
    Histogram {
        /// Number of bins, `b`.
        bins: u32,
        /// `R`.
        range: f32,
    },
    /// One count that moves up if the norm is above `norm`, and down if not: twice the excess of clipped samples over half.
    Above {
        /// The norm compared with.
        norm: f32,
    },
}

impl Query {
    /// Returns the number of counts.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Histogram { bins, .. } => *bins as usize,
            Self::Above { .. } => 1,
        }
    }

    /// Returns true if nothing is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts one sample whose mixed, unclipped gradient has this norm.
    pub fn count(&self, norm: f32, counts: &mut [i32]) {
        let (index, step) = match *self {
            Self::None => return,
            // The cast saturates, and what is not a number goes to bin 0: one bin in any case.
            Self::Histogram { bins, range } => {
                (((norm * (bins as f32 / range)) as u32).min(bins.saturating_sub(1)) as usize, 1)
            }
            Self::Above { norm: bound } => (0, if norm > bound { 1 } else { -1 }),
        };
        if let Some(count) = counts.get_mut(index) {
            *count = count.wrapping_add(step);
        }
    }
}

/// Memory for a step's counts: `[i32; N]` with `N` at least the length of any query.
pub trait Counts: Copy + sealed::Sealed {
    /// Memory for the released counts, as many as are counted.
    type Released: AsMut<[f64]>;

    /// No sample counted yet.
    const ZERO: Self;

    /// No count released yet.
    const NONE: Self::Released;

    /// The counts.
    #[doc(hidden)]
    fn as_mut(&mut self) -> &mut [i32];

    /// The counts.
    #[doc(hidden)]
    fn as_ref(&self) -> &[i32];

    /// The same memory with no sample counted: a shard's.
    #[must_use]
    fn empty(&self) -> Self {
        Self::ZERO
    }

    /// A sample whose gradient is not finite, which adds nothing to the sum: counted nowhere.
    #[doc(hidden)]
    fn non_finite(&mut self, _query: &Query) {}

    /// Adds the samples of another worker whose gradients were not finite.
    #[doc(hidden)]
    fn merge_non_finite(&mut self, _other: &Self) {}

    /// Number of samples whose gradient was not finite, which is never released; 0 if they are not counted.
    #[doc(hidden)]
    fn non_finite_samples(&self) -> u32 {
        0
    }
}

impl<const N: usize> sealed::Sealed for [i32; N] {}

impl<const N: usize> Counts for [i32; N] {
    type Released = [f64; N];

    const ZERO: Self = [0; N];
    const NONE: [f64; N] = [0.0; N];

    fn as_mut(&mut self) -> &mut [i32] {
        self
    }

    fn as_ref(&self) -> &[i32] {
        self
    }
}

/// Counts that may also take the samples whose gradients are not finite: in the last bin of a histogram, as every larger norm. Their
/// gradients still add nothing. A program without it has nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllCounts<const N: usize> {
    counts: [i32; N],
    non_finite: bool,
    /// Samples that were not finite, whether they are in a count or not.
    non_finite_samples: u32,
}

impl<const N: usize> AllCounts<N> {
    /// No sample counted yet; whether those that are not finite will be.
    #[must_use]
    pub const fn new(non_finite: bool) -> Self {
        Self { counts: [0; N], non_finite, non_finite_samples: 0 }
    }
}

impl<const N: usize> sealed::Sealed for AllCounts<N> {}

impl<const N: usize> Counts for AllCounts<N> {
    type Released = [f64; N];

    const ZERO: Self = Self::new(false);
    const NONE: [f64; N] = [0.0; N];

    fn as_mut(&mut self) -> &mut [i32] {
        &mut self.counts
    }

    fn as_ref(&self) -> &[i32] {
        &self.counts
    }

    fn empty(&self) -> Self {
        Self::new(self.non_finite)
    }

    fn merge_non_finite(&mut self, other: &Self) {
        self.non_finite_samples = self.non_finite_samples.saturating_add(other.non_finite_samples);
    }

    fn non_finite_samples(&self) -> u32 {
        self.non_finite_samples
    }

    fn non_finite(&mut self, query: &Query) {
        self.non_finite_samples = self.non_finite_samples.saturating_add(1);
        if let Query::Histogram { bins, .. } = query
            && self.non_finite
            && let Some(last) = self.counts.get_mut(bins.saturating_sub(1) as usize)
        {
            *last = last.wrapping_add(1);
        }
    }
}

/// The noise of counts: a discrete Gaussian on their grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountNoise {
    sigma: NonZeroU32,
}

impl CountNoise {
    /// Noise of at least `multiplier` counts: `σ = ⌈multiplier · 2^12⌉` grid units.
    ///
    /// # Errors
    ///
    /// The multiplier must be from 1/4 (below, the accountant's fractional orders would not hold for the discrete Gaussian)
    /// to 2¹⁸.
    pub fn new(multiplier: f64) -> Result<Self, ConfigError> {
        if !(0.25..=262_144.0).contains(&multiplier) {
            return Err(ConfigError::new("count noise multiplier", "from 0.25 to 2^18"));
        }
        let sigma = ceil(multiplier * f64::from(UNIT));
        Ok(Self { sigma: NonZeroU32::new(sigma).unwrap_or(NonZeroU32::MIN) })
    }

    /// The standard deviation in units of `UNIT`, as it runs.
    pub(crate) fn sigma(self) -> u32 {
        self.sigma.get()
    }

    /// The multiplier that runs and is priced: σ in counts, exactly.
    #[must_use]
    pub fn multiplier(self) -> f64 {
        f64::from(self.sigma.get()) / f64::from(UNIT)
    }

    /// The counts with noise.
    pub(crate) fn release<R: Rng>(self, counts: &[i32], words: &mut R, out: &mut [f64]) {
        for (count, out) in counts.iter().zip(out) {
            *out = self.noisy(i64::from(*count) * i64::from(UNIT), words);
        }
    }

    /// A sum of grid units with noise, in counts.
    pub(crate) fn noisy<R: Rng>(self, units: i64, words: &mut R) -> f64 {
        let noise = discrete_gaussian::sample(self.sigma.get(), words);
        exactly(units.wrapping_add(noise)) / f64::from(UNIT)
    }
}

/// Counts that were released with noise: they may be negative, and no integers.
pub struct ReleasedCounts<'a> {
    counts: &'a [f64],
}

impl<'a> ReleasedCounts<'a> {
    pub(crate) fn new(counts: &'a [f64]) -> Self {
        Self { counts }
    }

    /// The counts, in the query's order.
    #[must_use]
    pub fn counts(&self) -> &'a [f64] {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sample_changes_one_count_by_one(
            norm in prop::num::f32::ANY, bins in 1u32..20, range in prop::num::f32::POSITIVE, bound in prop::num::f32::ANY,
        ) {
            for query in [Query::Histogram { bins, range }, Query::Above { norm: bound }] {
                let mut counts = [0; 20];
                query.count(norm, &mut counts);
                prop_assert_eq!(counts.iter().map(|c| c.unsigned_abs()).sum::<u32>(), 1);
                prop_assert!(counts.iter().skip(query.len()).all(|c| *c == 0));
            }
        }

        #[test]
        fn a_bin_is_where_the_norm_lies(bins in 1u32..20, range in 1e-6f32..1e6, at in 0f32..2.0) {
            let mut counts = [0; 20];
            Query::Histogram { bins, range }.count(at * range, &mut counts);
            let bin = counts.iter().position(|c| *c == 1).unwrap() as f64;
            let exact = (f64::from(at) * f64::from(bins)).min(f64::from(bins) - 1.0);
            prop_assert!(bin <= exact + 1e-4 && exact < bin + 1.0 + 1e-4, "{bin} {exact}");
        }
    }

    /// One sample moves one count, whatever its gradient: the sensitivity stays 1.
    #[test]
    fn non_finite_sample_moves_last_bin_only() {
        for (bins, range) in [(1, 1.0), (4, 1e-38), (4, 1.0), (4, f32::MAX), (4, f32::INFINITY)] {
            let query = Query::Histogram { bins, range };
            let (mut all, mut finite, mut plain) = (AllCounts::<4>::new(true), AllCounts::<4>::new(false), [0; 4]);
            all.non_finite(&query);
            finite.non_finite(&query);
            plain.non_finite(&query);
            assert_eq!((finite.counts, plain), ([0; 4], [0; 4]));
            let moved = all.counts.iter().map(|count| count.unsigned_abs()).sum::<u32>();
            assert_eq!((moved, all.counts[bins as usize - 1]), (1, 1), "{bins} {range}");
            assert_eq!(all.empty(), AllCounts::new(true));
        }
        for query in [Query::None, Query::Above { norm: 1.0 }] {
            let mut all = AllCounts::<4>::new(true);
            all.non_finite(&query);
            assert_eq!(all.counts, [0; 4]);
        }
    }

    // The upper edge of the range falls in the last bin, and zero in the first.
    #[test]
    fn range_edge_falls_in_last_bin() {
        for (norm, bin) in [(0.0, 0), (0.25, 1), (0.999, 3), (1.0, 3), (1e30, 3)] {
            let mut counts = [0; 4];
            Query::Histogram { bins: 4, range: 1.0 }.count(norm, &mut counts);
            assert_eq!(counts[bin], 1, "{norm}");
        }
    }
}
