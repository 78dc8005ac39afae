//! Restricted view of a step's sum, for code that only adds samples.

use super::adder::{Adder, total_len};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::private::Mechanism;

/// The borrowed sum of a step or of a shard, to add samples to. Dropping this does not wipe the sum.
///
/// The type has no filter and no optimizer, so code that adds samples is compiled once for each mechanism.
pub struct Adding<'s, M: Mechanism, C, K> {
    pub(super) adder: &'s Adder<M, C>,
    pub(super) sum: &'s mut [M::Word],
    pub(super) counts: &'s mut K,
}

impl<M: Mechanism, C: Clip, K: Counts> Adding<'_, M, C, K> {
    /// Adds each of `samples` in turn, with the bits of [`Open::add_combined`](super::Open::add_combined). It is
    /// faster, because the sum is read and written once for several samples.
    ///
    /// # Errors
    ///
    /// Fails if the parts of a sample have another number of elements. Nothing is added.
    #[inline(always)]
    pub fn each_combined(self, samples: &[&[&[f32]]]) -> Result<(), CallError> {
        samples.iter().try_for_each(|parts| check_len("the gradient", self.sum.len(), total_len(parts)))?;
        self.adder.add_each(samples, self.sum, self.counts);
        Ok(())
    }
}
