//! Training on several processes: each exchanges its part of a step's sum for the total. Functions that expose the sum,
//! or accept values that other processes released, take [`Unreleased`].
//!
//! The words that ranks exchange are as secret as the data, and all processes hold the key. Sums are integers modulo a
//! power of two, so the order of addition does not change a bit.
//!
//! # Privacy
//!
//! Each process adds only the samples of its share. All processes release one sum with one noise. A process that
//! released the sum of its own share would use that noise for a second sum. A step with a failed exchange is therefore
//! [broken](CallError::Broken), and releases nothing.

use super::config::StepConfig;
use super::noise_part::NoisePart;
use super::{Open, PrivateStep, StepState};
use crate::accounting::{Ledger, Store};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, OpenError, check_len};
use crate::filter::Filter;
use crate::noise::sealed::Inside;
use crate::noise::{CHUNK, Generator};
use crate::optimizer::Optimizer;
use crate::private::Mechanism;
use crate::schedule::Schedule;
use crate::threshold::Threshold;
use core::ops::Range;
use damper_access::Unreleased;

/// Cause that kept a step of several processes from finishing. The step releases nothing, and its charge stays.
///
/// ```
/// use damper_access::Unreleased;
/// use damper_core::{prelude::*, step::ExchangeError};
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, -0.25])?;
/// assert!(step.has_noise_parts());
/// // The other process added nothing, so the totals are the words here.
/// step.exchange(Unreleased::claim(), |_sum, _counts| Ok::<(), std::fmt::Error>(()))?;
/// let lost = step.finish_exchanged(&mut [0.0; 2], &NoiseRng::simulation(1), 1, |_parts| Err("the other process ended"));
/// assert_eq!(lost, Err(ExchangeError::Exchange("the other process ended")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeError<E> {
    /// The step does not fit its caller.
    Call(CallError),
    /// The exchange between the processes failed.
    Exchange(E),
}

impl<P: StepConfig, FS, OS> Open<'_, P, FS, OS>
where
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{
    /// Passes the words of the sum (`[D]`) and the counts to `exchange`, which replaces them with the totals over all
    /// processes.
    ///
    /// With [`Open::finish_exchanged`], a process needs only the totals of the coordinates that it draws, and zeros
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// Returns the error of `exchange`. The step is then [broken](CallError::Broken).
    pub fn exchange<E>(
        &mut self,
        _: Unreleased,
        exchange: impl FnOnce(&mut [<P::Mechanism as Mechanism>::Word], &mut [i32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let was_broken = core::mem::replace(&mut self.is_broken, true);
        exchange(self.sum.sum, self.counts.as_mut())?;
        self.is_broken = was_broken;
        Ok(())
    }

    /// Finishes the step as [`Open::finish_on`] does. `draw` draws some parts, and [takes](NoisePart::take_released)
    /// the others from the processes that drew them.
    ///
    /// # Errors
    ///
    /// Fails as [`Open::finish_on`] does, if the noise has no parts, or with the error of `draw`. Nothing is released.
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
        self.drawing(generator).each_part(self.sum.sum, 0, parts, draw).map_err(ExchangeError::Exchange)?;
        self.move_params::<G, true>(params, generator).map_err(ExchangeError::Call)?;
        self.learn_threshold(params.len(), generator);
        Ok(())
    }

    /// Returns true if the noise of a step has parts.
    #[must_use]
    pub fn has_noise_parts(&self) -> bool {
        P::Mechanism::independent_state().is_some()
    }
}

/// An open step of which this process updates one block of coordinates. Its filter and optimizer have only the state of
/// the block.
///
/// Other processes update the rest. The result has the bits of one process if no coordinate's update depends on another
/// coordinate.
///
/// ```
/// use damper_core::{optimizer::SgdState, prelude::*, private::SumWord, step::{StepState, part_range}};
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).momentum(0.9).expected_batch(4).build()?;
/// let whole = {
///     let (mut state, mut params) = (config.state::<3000>(), [0.0; 3000]);
///     let step = config.open(&mut state, &mut Ledger::volatile(1))?;
///     step.finish(&mut params, &NoiseRng::simulation(1))?;
///     params
/// };
/// // The second of two processes has the momentum of its block only.
/// let block = part_range(3000, 2, 1);
/// let momentum = SgdState { momentum: vec![0.0; block.len()] };
/// let (mut state, mut params) = (StepState::new([SumWord::ZERO; 3000], (), momentum, ()), [0.0; 3000]);
/// let mut step = config.open_block(&mut state, &mut Ledger::volatile(1), block.clone())?;
/// assert_eq!(step.open().number(), 0);
/// step.finish(&mut params, &NoiseRng::simulation(1), 1, |parts| parts.iter_mut().for_each(|part| part.draw()))?;
/// assert_eq!(params[block.clone()], whole[block]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a step that is not finished releases nothing, and its charge stays"]
pub struct OpenBlock<'a, P: StepConfig, FS = (), OS = ()> {
    open: Open<'a, P, FS, OS>,
    block: Range<usize>,
}

impl<F: Clone, O: Clone, M: Mechanism, T: Threshold, C: Clip, S: Schedule> PrivateStep<F, O, M, T, C, S> {
    /// Opens a step as [`PrivateStep::open`] does, of which [`OpenBlock::finish`] updates the coordinates `block`.
    ///
    /// The block is a range within `0..D` that begins at a chunk of noise. Filter and optimizer have the state of
    /// `block` only, with its first coordinate at 0.
    ///
    /// # Errors
    ///
    /// Fails as [`PrivateStep::open`] does, if the block is invalid, if the noise has no parts, or if a coordinate's
    /// update depends on other coordinates.
    pub fn open_block<'a, B, FS, OS, L: Store>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        ledger: &mut Ledger<L>,
        block: Range<usize>,
    ) -> Result<OpenBlock<'a, Self, FS, OS>, OpenError<L::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let slots = &self.slots;
        let is_by_coordinate = M::independent_state().is_some()
            && slots.filter.filters_by_coordinate()
            && slots.optimizer.moves_by_coordinate();
        let checked = self.check_of(state, Some(block.len())).map_err(OpenError::Call)?;
        let is_block = block.start <= block.end && block.end <= checked.sum.len() && block.start.is_multiple_of(CHUNK);
        if !is_by_coordinate || !is_block {
            return Err(OpenError::Call(CallError::Order("a block of a step that is taken whole")));
        }
        self.check_budget(ledger).map_err(OpenError::Call)?;
        let number = ledger.charge_for(self.fingerprint(checked.sum.len()))?;
        Ok(OpenBlock { open: self.opened(checked, number, number, None), block })
    }
}

impl<'a, P: StepConfig, FS, OS> OpenBlock<'a, P, FS, OS>
where
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{
    /// Returns the step, to add samples and to exchange the sum.
    pub fn open(&mut self) -> &mut Open<'a, P, FS, OS> {
        &mut self.open
    }

    /// Finishes the block as [`Open::finish_on`] does. The totals of the block's coordinates must be present.
    ///
    /// Only the block of `params` (`[D]`) changes. The words of the other coordinates are wiped. Every process updates
    /// the threshold.
    ///
    /// # Errors
    ///
    /// Fails as [`Open::finish_on`] does.
    pub fn finish<G: Generator>(
        self,
        params: &mut [f32],
        generator: &G,
        parts: usize,
        draw: impl for<'p> FnOnce(&mut [NoisePart<'p, P::Mechanism, G>]),
    ) -> Result<(), CallError> {
        let Self { mut open, block } = self;
        open.check_unbroken()?;
        let dim = open.sum.sum.len();
        check_len("the parameters", dim, params.len())?;
        let first = (block.start / CHUNK) as u32;
        let own = open.sum.narrow(block.clone());
        check_len("the block", block.len(), own)?;
        open.drawing(generator).each_part(open.sum.sum, first, parts, draw);
        open.move_params::<G, true>(params.get_mut(block).unwrap_or_default(), generator)?;
        open.learn_threshold(dim, generator);
        Ok(())
    }
}

/// Returns the coordinates of part `index` of `parts`, in a step with `dim` coordinates.
///
/// ```
/// use damper_core::step::part_range;
///
/// let parts: Vec<_> = (0..3).map(|index| part_range(1000, 3, index)).collect();
/// assert_eq!((parts[0].start, parts[2].end), (0, 1000));
/// assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
/// ```
#[must_use]
pub fn part_range(dim: usize, parts: usize, index: usize) -> Range<usize> {
    let width = super::noise_part::chunks_of_part(dim, parts).saturating_mul(CHUNK);
    let start = index.saturating_mul(width).min(dim);
    start..start.saturating_add(width).min(dim)
}

impl<M: Mechanism, G> NoisePart<'_, M, G> {
    /// Returns the coordinates of the part.
    #[must_use]
    pub fn coordinates(&self) -> Range<usize> {
        let start = (self.first as usize).saturating_mul(CHUNK);
        start..start.saturating_add(self.sum.len())
    }

    /// Writes the released values to `out`. Returns false and writes nothing if the part is not drawn or the lengths
    /// differ.
    ///
    /// ```
    /// use damper_access::Unreleased;
    /// use damper_core::prelude::*;
    ///
    /// let run = |sends: &mut dyn FnMut(&mut [f32]), draws: bool| {
    ///     let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    ///     let (mut state, mut params) = (config.state::<2>(), [0.0; 2]);
    ///     let step = config.open(&mut state, &mut Ledger::volatile(1))?;
    ///     step.finish_on(&mut params, &NoiseRng::simulation(1), 1, |parts| {
    ///         let (part, mut released) = (&mut parts[0], [0.0; 2]);
    ///         assert_eq!(part.coordinates(), 0..2);
    ///         if draws {
    ///             part.draw();
    ///             assert!(part.read_released(&mut released));
    ///             sends(&mut released);
    ///         } else {
    ///             sends(&mut released);
    ///             assert!(part.take_released(&released, Unreleased::claim()));
    ///         }
    ///     })?;
    ///     Ok::<_, Box<dyn std::error::Error>>(params)
    /// };
    /// // One process draws the part, and the other takes its values.
    /// let mut sent = [0.0; 2];
    /// let drew = run(&mut |released| sent.copy_from_slice(released), true)?;
    /// assert_eq!(run(&mut |released| released.copy_from_slice(&sent), false)?, drew);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_released(&self, out: &mut [f32]) -> bool {
        if !self.is_drawn || out.len() != self.sum.len() {
            return false;
        }
        for (out, word) in out.iter_mut().zip(self.sum.iter()) {
            *out = M::load_released(*word, Inside(()));
        }
        true
    }

    /// Stores the values that another process released for these coordinates. Returns false and stores nothing if the
    /// part is already drawn or the lengths differ.
    pub fn take_released(&mut self, released: &[f32], _: Unreleased) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::FlatL2;
    use crate::filter::{AdaptiveFir, AdaptiveFirState, Identity, Iir, IirState};
    use crate::grid::Grid;
    use crate::noise::{ChaCha20, DiscreteGaussian};
    use crate::optimizer::{AdaGradNorm, AdaGradNormState, Adam, AdamState, Sgd, SgdState};
    use crate::private::SumWord;
    use crate::schedule::Constant;
    use crate::step::Slots;
    use crate::threshold::Fixed;
    use std::vec;
    use std::vec::Vec;

    const DIM: usize = 2 * CHUNK + 5;

    fn step<F: Clone, O: Clone>(filter: F, optimizer: O) -> PrivateStep<F, O, DiscreteGaussian<i64>> {
        PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
            clip: FlatL2,
            threshold: Fixed(1.0),
            filter,
            optimizer,
            schedule: Constant(0.1),
            expected_batch: 4,
        })
        .unwrap()
    }

    /// Runs three steps of Adam after a filter of order 2, once for each block. Returns the parameters of all blocks.
    fn train(blocks: &[Range<usize>]) -> Vec<f32> {
        let step = step(Iir::<2>::new(&[-0.9], &[0.1, 0.2]).unwrap(), Adam::new(0.9, 0.99, 1e-6, 0.1).unwrap());
        let generator: ChaCha20 = ChaCha20::simulation(1);
        let mut states: Vec<_> = blocks
            .iter()
            .map(|block| {
                let zeros = |rows: usize| vec![0f32; rows * block.len()];
                let filter = IirState::new(zeros(step.slots().filter.order()));
                let state = StepState::new(vec![SumWord::ZERO; DIM], filter, AdamState::new(zeros(1), zeros(1)), ());
                (state, Ledger::volatile(3))
            })
            .collect();
        let mut params: Vec<f32> = (0..DIM).map(|at| at as f32 / DIM as f32).collect();
        for _ in 0..3 {
            let before = params.clone();
            for (block, (state, ledger)) in blocks.iter().zip(&mut states) {
                let mut own = before.clone();
                let mut opened = step.open_block(state, ledger, block.clone()).unwrap();
                opened.open().add_combined(&[&before]).unwrap();
                opened.finish(&mut own, &generator, 2, |_| ()).unwrap();
                params[block.clone()].copy_from_slice(&own[block.clone()]);
                assert_eq!(own[..block.start], before[..block.start]);
                assert_eq!(own[block.end..], before[block.end..]);
                assert!(state.sum.iter().all(|word| word.0 == 0));
            }
        }
        params
    }

    #[test]
    fn blocks_have_the_bits_of_the_whole() {
        let all = 0..DIM;
        let whole = train(core::slice::from_ref(&all));
        assert_ne!(whole[..3], [0.0, 1.0 / DIM as f32, 2.0 / DIM as f32]);
        assert_eq!(train(&[0..CHUNK, CHUNK..DIM]), whole);
        assert_eq!(train(&[0..2 * CHUNK, 2 * CHUNK..DIM]), whole);
    }

    // An update that depends on other coordinates, or an invalid block, is an error, and nothing is charged.
    #[test]
    fn what_has_no_blocks_is_refused() {
        let sgd = || (Sgd::new(0.0, false, 0.0).unwrap(), SgdState { momentum: Vec::<f32>::new() });
        let mut ledger = Ledger::volatile(3);
        let (optimizer, state) = sgd();
        let norm = step(Identity, AdaGradNorm::new(1.0, 1e-5, true, optimizer).unwrap());
        let mut of_norm = StepState::new(vec![SumWord::ZERO; DIM], (), AdaGradNormState::new(state), ());
        assert!(norm.open_block(&mut of_norm, &mut ledger, 0..CHUNK).is_err());
        let adaptive = AdaptiveFir::<4>::new(2, 0.5, 0.1).unwrap();
        let past = AdaptiveFirState::new(vec![0f32; adaptive.memory_len(CHUNK)]);
        let (optimizer, state) = sgd();
        let mut of_adaptive = StepState::new(vec![SumWord::ZERO; DIM], past, state, ());
        assert!(step(adaptive, optimizer).open_block(&mut of_adaptive, &mut ledger, 0..CHUNK).is_err());
        let (optimizer, state) = sgd();
        let (plain, mut of_plain) =
            (step(Identity, optimizer), StepState::new(vec![SumWord::ZERO; DIM], (), state, ()));
        for block in [1..CHUNK, 0..DIM + 1, DIM..DIM + 5] {
            assert!(plain.open_block(&mut of_plain, &mut ledger, block).is_err());
        }
        assert_eq!(ledger.charged_steps(), 0);
        // Parameters of another length are an error. Nothing is released, and the charge stays.
        let opened = plain.open_block(&mut of_plain, &mut ledger, 0..CHUNK).unwrap();
        let generator: ChaCha20 = ChaCha20::simulation(1);
        assert!(opened.finish(&mut [0.0; 3], &generator, 1, |_| ()).is_err());
        assert_eq!(ledger.charged_steps(), 1);
    }
}
