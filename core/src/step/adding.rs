//! Restricted view of a step's sum, for code that only adds samples.

use super::adder::{Adder, total_len};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::private::Mechanism;

/// The borrowed sum of a step or of a shard, to add samples to. Dropping this does not wipe the sum.
///
/// The type has no filter and no optimizer, so code that adds samples is compiled once for each mechanism.
///
/// ```
/// use damper_core::clip::FlatL2;
/// use damper_core::{noise::DiscreteGaussian, prelude::*, step::Adding};
///
/// /// Compiled once for all filters and optimizers.
/// fn add(adding: Adding<'_, DiscreteGaussian<i32>, FlatL2, [i32; 0]>, grads: &[f32]) -> Result<(), CallError> {
///     adding.each_combined(&[&[grads]])
/// }
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// add(step.adding(), &[0.5, -0.2])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
