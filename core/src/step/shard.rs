//! One worker's share of a step.

use super::Adding;
use super::adder::{Adder, total_len};
use crate::clip::{Clip, Segments};
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::grid::Word;
use crate::noise::DiscreteGaussian;
use crate::private::{ClippedSum, Mechanism};

/// A worker's sum of a step. Dropping it adds nothing and wipes the sum.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_core::private::SumWord;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// // Of another thread, with a sum of its own.
/// let mut memory = [SumWord::ZERO; 2];
/// let mut shard = step.shard(&mut memory)?;
/// shard.add_combined(&[&[0.5, -0.2]])?;
/// shard.add_combined_streamed(|segments| segments.push(&[0.1, 0.3]))?;
/// shard.adding().each_combined(&[&[&[0.5, -0.2]]])?;
/// assert_eq!(step.takes(&shard), Ok(()));
/// step.merge(shard)?;
/// step.finish(&mut [0.0; 2], &NoiseRng::simulation(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the samples are not added before `merge`"]
pub struct Shard<'a, M: Mechanism, C, K> {
    pub(super) adder: Adder<M, C>,
    pub(super) sum: ClippedSum<'a, M::Word>,
    pub(super) counts: K,
    /// True if a producer's sample was added in part.
    pub(super) is_broken: bool,
}

impl<M: Mechanism, C: Clip, K: Counts> Shard<'_, M, C, K> {
    /// Adds one sample, as [`Open::add_combined`](super::Open::add_combined) does.
    ///
    /// # Errors
    ///
    /// Fails if the parts have another number of elements. Nothing is added.
    #[inline(always)]
    pub fn add_combined(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.sum.sum.len(), total_len(parts))?;
        self.adder.add(parts, self.sum.sum, &mut self.counts);
        Ok(())
    }

    /// Borrows only the sum, as [`Open::adding`](super::Open::adding) does.
    #[inline(always)]
    pub fn adding(&mut self) -> Adding<'_, M, C, K> {
        Adding { adder: &self.adder, sum: self.sum.sum, counts: &mut self.counts }
    }
}

impl<W: Word, C: Clip, K: Counts> Shard<'_, DiscreteGaussian<W>, C, K> {
    /// Adds a streamed sample, as [`Open::add_combined_streamed`](super::Open::add_combined_streamed) does.
    ///
    /// # Errors
    ///
    /// Fails if the gradient has another number of elements. Nothing is added. Also fails if the shard is
    /// [broken](CallError::Broken), and then it cannot be merged.
    pub fn add_combined_streamed(&mut self, mut producer: impl FnMut(&mut Segments<'_>)) -> Result<(), CallError> {
        self.adder.add_streamed(&mut producer, self.sum.sum, &mut self.counts, &mut self.is_broken)
    }
}
