//! Counts of samples, the input of adaptive thresholds.
//!
//! A threshold sends a [`Query`] to each step. The core does the counting, so a sample changes one count by exactly one
//! under any rule. The counts are released together with the gradient, with separate noise. Both come from one batch
//! and are accounted as one event: `1/σ² = 1/σ_T² + 1/σ_H²` (DC-SGD, theorem 2).
//!
//! # Memory
//!
//! One `i32` for each count, in the open step and in each of its shards. A rule without counts needs none.
//!
//! # Numerics
//!
//! The bin of a norm `n` is `F(n·F(b/R))` truncated to an integer, at most `b − 1`. At an edge, it may differ by one
//! from the bin of the exact quotient. A count of 1 is [`UNIT`] grid units. The noise is a discrete Gaussian with an
//! integer σ on that grid. It is drawn in the order of the counts at the address (counts, step, chunk 0). Counts wrap
//! like the sum of gradients, far above any batch. Released counts are f64, exact.
//!
//! # Timing
//!
//! The index of a sample's counter is an address that depends on its norm. The comparison of [`Query::Above`] may be a
//! branch.
//!
//! # Privacy
//!
//! Adding or removing one sample changes one count by one: sensitivity 1 in the Euclidean norm.

pub mod held_out;

use crate::error::ConfigError;
use crate::noise::{discrete_gaussian, sealed};
use crate::numerics::round::{ceil, exactly};
use core::num::NonZeroU32;
use rand_core::Rng;

/// Number of grid units in a count of 1.
pub const UNIT: u32 = 1 << 12;

/// Counts that a step takes. Each sample is counted by the norm of its combined, unclipped gradient.
///
/// ```
/// use damper_core::count::Query;
///
/// let query = Query::Histogram { bins: 4, range: 2.0 };
/// let mut counts = [0; 4];
/// for norm in [0.1, 0.6, 0.7, 99.0] {
///     query.count(norm, &mut counts);
/// }
/// assert_eq!(counts, [1, 2, 0, 1]);
/// assert_eq!((query.len(), Query::None.is_empty()), (4, true));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Query {
    /// No counts.
    None,
    /// Histogram of `bins` equal bins over `[0, range)`. The last bin also counts every larger norm.
    Histogram {
        /// Number of bins, `b`.
        bins: u32,
        /// Upper edge of the range, `R`.
        range: f32,
    },
    /// One count that increases if the norm is above `norm`, and decreases if not. It is twice the excess of clipped
    /// samples over half.
    Above {
        /// Norm to compare with.
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

    /// Returns true if the query has no counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts one sample by the norm of its combined, unclipped gradient.
    pub fn count(&self, norm: f32, counts: &mut [i32]) {
        let (index, step) = match *self {
            Self::None => return,
            // The cast saturates, and NaN goes to bin 0. Every sample is in exactly one bin.
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

/// Memory for a step's counts: `[i32; N]`, with `N` at least the length of any query.
///
/// ```
/// use damper_core::count::Counts;
///
/// assert_eq!(<[i32; 20]>::ZERO.empty(), [0; 20]);
/// ```
pub trait Counts: Copy + sealed::Sealed {
    /// Memory for the released counts.
    type Released: AsMut<[f64]>;

    /// Counts before the first sample.
    const ZERO: Self;

    /// Released counts before the first release.
    const NONE: Self::Released;

    /// Returns the counts.
    #[doc(hidden)]
    fn as_mut(&mut self) -> &mut [i32];

    /// Returns the counts.
    #[doc(hidden)]
    fn as_ref(&self) -> &[i32];

    /// Returns empty counts of the same kind, for a shard.
    #[must_use]
    fn empty(&self) -> Self {
        Self::ZERO
    }

    /// Handles a sample with a gradient that is not finite, which adds nothing to the sum. By default, it is not
    /// counted.
    #[doc(hidden)]
    fn non_finite(&mut self, _query: &Query) {}

    /// Adds another worker's number of samples with gradients that are not finite.
    #[doc(hidden)]
    fn merge_non_finite(&mut self, _other: &Self) {}

    /// Returns the number of samples with gradients that are not finite, or 0 if they are not counted. Never released.
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

/// Counts that can include samples with gradients that are not finite, in the last bin of a histogram with the largest
/// norms. Their gradients still add nothing. A program that does not use it links none of its code.
///
/// ```
/// use damper_core::count::{AllCounts, Counts as _};
///
/// let counts = AllCounts::<20>::new(true);
/// assert_eq!(counts.empty(), counts);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllCounts<const N: usize> {
    counts: [i32; N],
    non_finite: bool,
    /// Number of samples that were not finite, counted or not.
    non_finite_samples: u32,
}

impl<const N: usize> AllCounts<N> {
    /// Creates empty counts. `non_finite` selects if samples that are not finite are counted.
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

/// Noise of counts: a discrete Gaussian on their grid.
///
/// ```
/// use damper_core::count::CountNoise;
///
/// assert_eq!(CountNoise::new(10.0)?.multiplier(), 10.0);
/// // Rounded up to the grid of counts.
/// assert!(CountNoise::new(10.0001)?.multiplier() > 10.0001);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountNoise {
    sigma: NonZeroU32,
}

impl CountNoise {
    /// Creates noise of at least `multiplier` counts: `σ = ⌈multiplier · 2^12⌉` grid units.
    ///
    /// # Errors
    ///
    /// Fails unless the multiplier is from 1/4 to 2¹⁸. Below 1/4, the accountant's fractional orders would not hold for
    /// the discrete Gaussian.
    pub fn new(multiplier: f64) -> Result<Self, ConfigError> {
        if !(0.25..=262_144.0).contains(&multiplier) {
            return Err(ConfigError::new("count noise multiplier", "from 0.25 to 2^18"));
        }
        let sigma = ceil(multiplier * f64::from(UNIT));
        Ok(Self { sigma: NonZeroU32::new(sigma).unwrap_or(NonZeroU32::MIN) })
    }

    /// Returns the standard deviation that runs, in grid units of `1/UNIT` count.
    pub(crate) fn sigma(self) -> u32 {
        self.sigma.get()
    }

    /// Returns the multiplier that runs and is accounted: σ in counts, exactly.
    #[must_use]
    pub fn multiplier(self) -> f64 {
        f64::from(self.sigma.get()) / f64::from(UNIT)
    }

    /// Writes the counts with noise to `out`.
    pub(crate) fn release<R: Rng>(self, counts: &[i32], words: &mut R, out: &mut [f64]) {
        for (count, out) in counts.iter().zip(out) {
            *out = self.noisy(i64::from(*count) * i64::from(UNIT), words);
        }
    }

    /// Returns a sum of grid units with noise, in counts.
    pub(crate) fn noisy<R: Rng>(self, units: i64, words: &mut R) -> f64 {
        let noise = discrete_gaussian::sample(self.sigma.get(), words);
        exactly(units.wrapping_add(noise)) / f64::from(UNIT)
    }
}

/// Counts released with noise. They may be negative or fractional.
///
/// ```
/// use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::DiscreteGaussian, prelude::*, private::SumWord};
/// use damper_core::count::{CountNoise, Query, ReleasedCounts};
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::schedule::Constant;
/// use damper_core::threshold::{StepConstants, Threshold};
///
/// /// Doubles the clip while most samples are clipped.
/// #[derive(Clone)]
/// struct Doubling(CountNoise);
/// impl Threshold for Doubling {
///     type State = f32;
///     type Counts = [i32; 1];
///     fn clip(&self, state: &f32) -> f32 {
///         *state
///     }
///     fn query(&self, state: &f32) -> Query {
///         Query::Above { norm: *state }
///     }
///     fn count_noise(&self) -> Option<CountNoise> {
///         Some(self.0)
///     }
///     fn update(&self, state: &mut f32, released: &ReleasedCounts<'_>, constants: StepConstants) {
///         // Twice the excess of clipped samples over half of them.
///         if released.counts()[0] > f64::from(constants.expected_batch) / 2.0 {
///             *state *= 2.0;
///         }
///     }
/// }
///
/// let config = PrivateStep::new(Slots {
///     filter: Identity,
///     optimizer: Sgd::new(0.0, false, 0.0)?,
///     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.0)?,
///     threshold: Doubling(CountNoise::new(1.0)?),
///     clip: FlatL2,
///     schedule: Constant(0.1),
///     expected_batch: 100,
/// })?;
/// let mut state = StepState::new([SumWord::ZERO; 2], (), SgdState { momentum: [] as [f32; 0] }, 0.1);
/// let mut step = config.open(&mut state, &mut Ledger::volatile(1))?;
/// for _ in 0..100 {
///     step.add(&[0.5, -0.2])?;
/// }
/// step.finish(&mut [0.0; 2], &NoiseRng::simulation(1))?;
/// assert_eq!(state.threshold, 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReleasedCounts<'a> {
    counts: &'a [f64],
}

impl<'a> ReleasedCounts<'a> {
    pub(crate) fn new(counts: &'a [f64]) -> Self {
        Self { counts }
    }

    /// Returns the counts, in the order of the query.
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

    /// One sample changes one count with any gradient, so the sensitivity stays 1.
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
