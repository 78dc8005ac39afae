//! The door for training on several processes, behind the feature `cluster`: a step's sum goes to the others and comes back added to theirs.
//!
//! The words that ranks exchange are as secret as the data, and all processes hold the key. Sums are integers modulo a power of two, so that the order in
//! which processes are added changes no bit.
//!
//! # Privacy
//!
//! Each process adds the samples of its share alone, and all of them release one sum with one noise. A process that released the sum of its
//! own share would use that noise for a second sum. So a step whose exchange failed is [broken](CallError::Broken), and releases nothing.

use super::Open;
use super::config::StepConfig;
use super::noise_part::NoisePart;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::filter::Filter;
use crate::noise::sealed::Inside;
use crate::noise::{CHUNK, Generator};
use crate::optimizer::Optimizer;
use crate::private::Mechanism;
use core::ops::Range;

/// Why a step of several processes was not finished; it releases nothing, and its charge stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeError<E> {
    /// The step does not fit its caller.
    Call(CallError),
    /// The processes did not exchange what they must.
    Exchange(E),
}

impl<P: StepConfig, FS, OS> Open<'_, P, FS, OS>
where
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{
    /// Gives the words of the sum (`[D]`) and the counts to `exchange`, which replaces them by the totals over all processes.
    ///
    /// With [`Open::finish_exchanged`], a process needs the totals of the coordinates that it draws alone, and zeros elsewhere.
    ///
    /// # Errors
    ///
    /// Those of `exchange`, after which the step is [broken](CallError::Broken).
    pub fn exchange<E>(
        &mut self,
        exchange: impl FnOnce(&mut [<P::Mechanism as Mechanism>::Word], &mut [i32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let was_broken = core::mem::replace(&mut self.is_broken, true);
        exchange(self.sum.sum, self.counts.as_mut())?;
        self.is_broken = was_broken;
        Ok(())
    }

    /// As [`Open::finish_on`], with parts of which `draw` draws some and [takes](NoisePart::take_released) others as another process has
    /// drawn them.
    ///
    /// # Errors
    ///
    /// As [`Open::finish_on`], noise that has no parts, or those of `draw`; nothing is released.
    pub fn finish_exchanged<G: Generator, E>(
        mut self,
        params: &mut [f32],
        generator: &G,
        parts: usize,
        draw: impl for<'p> FnOnce(&mut [NoisePart<'p, P::Mechanism, G>]) -> Result<(), E>,
    ) -> Result<(), ExchangeError<E>> {
        if P::Mechanism::independent_state().is_none() {
            return Err(ExchangeError::Call(CallError::Order("noise that is drawn whole")));
        }
        self.check_unbroken().map_err(ExchangeError::Call)?;
        check_len("the parameters", self.sum.sum.len(), params.len()).map_err(ExchangeError::Call)?;
        self.drawing(generator).each_part(self.sum.sum, parts, draw).map_err(ExchangeError::Exchange)?;
        self.move_params::<G, true>(params, generator);
        self.learn_threshold(params.len(), generator);
        Ok(())
    }

    /// Returns true if the noise of a step has parts.
    #[must_use]
    pub fn has_noise_parts(&self) -> bool {
        P::Mechanism::independent_state().is_some()
    }
}

/// The coordinates of part `index` of `parts` of a step with `dim` coordinates.
#[must_use]
pub fn part_range(dim: usize, parts: usize, index: usize) -> Range<usize> {
    let width = super::noise_part::chunks_of_part(dim, parts).saturating_mul(CHUNK);
    let start = index.saturating_mul(width).min(dim);
    start..start.saturating_add(width).min(dim)
}

impl<M: Mechanism, G> NoisePart<'_, M, G> {
    /// Its coordinates.
    #[must_use]
    pub fn coordinates(&self) -> Range<usize> {
        let start = (self.first as usize).saturating_mul(CHUNK);
        start..start.saturating_add(self.sum.len())
    }

    /// Writes the released values to `out`. Returns false, and writes nothing, if the part is not drawn or `out` has another length.
    pub fn read_released(&self, out: &mut [f32]) -> bool {
        if !self.is_drawn || out.len() != self.sum.len() {
            return false;
        }
        for (out, word) in out.iter_mut().zip(self.sum.iter()) {
            *out = M::load_released(*word, Inside(()));
        }
        true
    }

    /// Takes the values that another process has released for these coordinates. Returns false, and takes none, if the part is drawn or
    /// `released` has another length.
    pub fn take_released(&mut self, released: &[f32]) -> bool {
        if self.is_drawn || released.len() != self.sum.len() {
            return false;
        }
        for (word, released) in self.sum.iter_mut().zip(released) {
            *word = M::store_released(*released, Inside(()));
        }
        self.is_drawn = true;
        true
    }
}
