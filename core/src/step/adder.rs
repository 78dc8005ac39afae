//! Adding a sample to the sum of a step.

use crate::clip::{Clip, Segments};
use crate::count::{Counts, Query};
use crate::error::{CallError, check_len};
use crate::grid::{StreamError, Word};
use crate::noise::DiscreteGaussian;
use crate::noise::sealed::Inside;
use crate::private::{Mechanism, SumWord};

/// Returns the number of elements of a vector in parts.
#[inline(always)]
pub(super) fn total_len(parts: &[&[f32]]) -> usize {
    parts.iter().fold(0, |total, part| total.saturating_add(part.len()))
}

/// Settings of a step for adding a sample. Each shard has a copy.
#[derive(Clone, Copy)]
pub(super) struct Adder<M, C> {
    pub(super) mechanism: M,
    pub(super) clip: C,
    pub(super) threshold: f32,
    pub(super) query: Query,
    pub(super) step: u32,
}

impl<M: Mechanism, C: Clip> Adder<M, C> {
    /// Returns true if both add to the same sum. Another grid, clip or query gives a unit another value.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.step == other.step
            && self.mechanism == other.mechanism
            && self.threshold.to_bits() == other.threshold.to_bits()
            && self.query == other.query
    }

    /// Adds a sample of checked length, and counts it.
    ///
    /// On 64-bit targets it is inlined, so that each caller compiles it for its SIMD instruction set. Elsewhere one
    /// copy saves flash.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn add<K: Counts>(&self, parts: &[&[f32]], sum: &mut [M::Word], counts: &mut K) {
        let norm = self.mechanism.add_sample(&self.clip, self.threshold, parts, sum, Inside(()));
        self.count(norm, counts);
    }

    /// Adds each of `samples` in turn, with the bits of [`add`](Self::add).
    #[inline(always)]
    pub(super) fn add_each<K: Counts>(&self, samples: &[&[&[f32]]], sum: &mut [M::Word], counts: &mut K) {
        let count = |norm| self.count(norm, counts);
        self.mechanism.add_samples(&self.clip, self.threshold, samples, sum, count, Inside(()));
    }

    #[inline(always)]
    pub(super) fn count<K: Counts>(&self, norm: Option<f32>, counts: &mut K) {
        match norm {
            Some(norm) => self.query.count(norm, counts.as_mut()),
            None => counts.non_finite(&self.query),
        }
    }
}

impl<W: Word, C: Clip> Adder<DiscreteGaussian<W>, C> {
    /// Adds the gradient that `producer` yields, as [`Adder::add`] does. `is_broken` becomes true if the sample was
    /// added in part only.
    pub(super) fn add_streamed<K: Counts>(
        &self,
        producer: &mut dyn FnMut(&mut Segments<'_>),
        sum: &mut [SumWord<W>],
        counts: &mut K,
        is_broken: &mut bool,
    ) -> Result<(), CallError> {
        if *is_broken {
            return Err(CallError::Broken);
        }
        // If the producer panics, `is_broken` stays true and the producer is not called again.
        *is_broken = true;
        let dim = sum.len();
        match self.mechanism.grid().add_streamed(&self.clip, self.threshold, producer, sum) {
            Ok(Some(norm)) => self.query.count(norm, counts.as_mut()),
            Ok(None) => counts.non_finite(&self.query),
            Err(StreamError::Changed) => return Err(CallError::Broken),
            Err(StreamError::Length(len)) => {
                *is_broken = false;
                return check_len("the streamed gradient", dim, len);
            }
        }
        *is_broken = false;
        Ok(())
    }
}
