//! The sum of a step as those see it who add samples, and no more.

use super::adder::{Adder, total_len};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::private::Mechanism;

/// The sum of a step or of a shard, lent to be added to: it is not wiped when this ends. The type has no filter and no optimizer, so code
/// that adds samples is compiled once for each mechanism.
pub struct Adding<'s, M: Mechanism, C, K> {
    pub(super) adder: &'s Adder<M, C>,
    pub(super) sum: &'s mut [M::Word],
    pub(super) counts: &'s mut K,
}

impl<M: Mechanism, C: Clip, K: Counts> Adding<'_, M, C, K> {
    /// As [`Open::add_combined`](super::Open::add_combined) of each of `samples` in turn, with the same bits, and faster: the sum is read and
    /// written once for several of them.
    ///
    /// # Errors
    ///
    /// A sample's parts have another number of elements; nothing was added.
    #[inline(always)]
    pub fn each_combined(self, samples: &[&[&[f32]]]) -> Result<(), CallError> {
        samples.iter().try_for_each(|parts| check_len("the gradient", self.sum.len(), total_len(parts)))?;
        self.adder.add_each(samples, self.sum, self.counts);
        Ok(())
    }
}
