//! One worker's share of a step.

use super::adder::{Adder, total_len};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::private::{ClippedSum, Mechanism};

/// One worker's sum of a step. Dropping it adds nothing and wipes it.
#[must_use = "the samples are not added before `merge`"]
pub struct Shard<'a, M: Mechanism, C, K> {
    pub(super) adder: Adder<M, C>,
    pub(super) sum: ClippedSum<'a, M::Word>,
    pub(super) counts: K,
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
}
