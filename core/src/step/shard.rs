//! One worker's share of a step.

use super::Adding;
use super::adder::{Adder, total_len};
use crate::clip::{Clip, Segments};
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::grid::Word;
use crate::noise::DiscreteGaussian;
use crate::private::{ClippedSum, Mechanism};

/// One worker's sum of a step. Dropping it adds nothing and wipes it.
#[must_use = "the samples are not added before `merge`"]
pub struct Shard<'a, M: Mechanism, C, K> {
    pub(super) adder: Adder<M, C>,
    pub(super) sum: ClippedSum<'a, M::Word>,
    pub(super) counts: K,
    /// True if a producer's sample was partly added.
    pub(super) is_broken: bool,
}

impl<M: Mechanism, C: Clip, K: Counts> Shard<'_, M, C, K> {
    /// As [`Open::add_combined`](super::Open::add_combined).
    ///
    /// # Errors
    ///
    /// The parts have another number of elements; nothing was added.
    #[inline(always)]
    pub fn add_combined(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.sum.sum.len(), total_len(parts))?;
        self.adder.add(parts, self.sum.sum, &mut self.counts);
        Ok(())
    }

    /// As [`Open::adding`](super::Open::adding).
    #[inline(always)]
    pub fn adding(&mut self) -> Adding<'_, M, C, K> {
        Adding { adder: &self.adder, sum: self.sum.sum, counts: &mut self.counts }
    }
}

impl<W: Word, C: Clip, K: Counts> Shard<'_, DiscreteGaussian<W>, C, K> {
    /// As [`Open::add_combined_streamed`](super::Open::add_combined_streamed).
    ///
    /// # Errors
    ///
    /// The gradient has another number of elements, and nothing was added; or the shard is [broken](CallError::Broken), and cannot be
    /// merged.
    pub fn add_combined_streamed(&mut self, mut producer: impl FnMut(&mut Segments<'_>)) -> Result<(), CallError> {
        self.adder.add_streamed(&mut producer, self.sum.sum, &mut self.counts, &mut self.is_broken)
    }
}
