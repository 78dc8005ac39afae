//! An open step: takes samples, releases the sum, and updates the parameters.

use super::adder::{Adder, total_len};
use super::config::{CountsOf, StepConfig};
use super::draw::Draw;
use super::noise_part::{BLOCK, Drawing, NoisePart, address, load, store};
use super::{Adding, Mixing, Shard};
use crate::accounting::Rate;
use crate::clip::Segments;
use crate::count::{CountNoise, Counts, ReleasedCounts};
use crate::error::{CallError, check_len};
use crate::filter::Filter;
use crate::grid::Word;
use crate::noise::sealed::Inside;
use crate::noise::{Address, CHUNK, DiscreteGaussian, Generator, Purpose};
use crate::optimizer::{Begin, Optimizer, piece};
use crate::private::{ClippedSum, Mechanism, Released};
use crate::sampling::{PoissonBatch, poisson};
use crate::threshold::{StepConstants, Threshold};
use core::ops::Range;

/// A charged step that takes samples. Dropping it releases nothing and wipes the sum. The charge stays.
///
/// It borrows only the state, so a task or a resource can hold it.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let noise = NoiseRng::simulation(1);
/// let mut params = [0.0; 2];
///
/// let mut step = config.open(&mut state, &mut ledger)?;
/// assert_eq!((step.number(), step.clip(), step.eval_points()), (0, 1.0, 1));
/// step.add(&[0.5, -0.2])?;
/// step.add_combined(&[&[0.5], &[-0.2]])?;
/// step.add_streamed(|segments| segments.push(&[0.5, -0.2]))?;
/// step.adding().each_combined(&[&[&[0.5, -0.2]], &[&[0.1], &[0.3]]])?;
/// step.finish(&mut params, &noise)?;
/// assert!(params != [0.0; 2]);
///
/// // A step that is dropped releases nothing, and stays charged.
/// drop(config.open(&mut state, &mut ledger)?);
/// assert_eq!(ledger.charged_steps(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a step that is not finished releases nothing, and its charge stays"]
pub struct Open<'a, P: StepConfig, FS = (), OS = ()> {
    pub(super) adder: Adder<P::Mechanism, P::Clip>,
    pub(super) sum: ClippedSum<'a, <P::Mechanism as Mechanism>::Word>,
    pub(super) counts: CountsOf<P>,
    pub(super) count_noise: Option<CountNoise>,
    pub(super) filter: P::Filter,
    pub(super) filter_state: &'a mut FS,
    pub(super) threshold: P::Threshold,
    pub(super) threshold_state: &'a mut <P::Threshold as Threshold>::State,
    pub(super) optimizer: P::Optimizer,
    pub(super) optimizer_state: &'a mut OS,
    pub(super) noise_state: &'a mut <P::Mechanism as Mechanism>::NoiseState,
    /// Poisson sampling of the step.
    pub(super) draw: Draw,
    pub(super) learning_rate: f64,
    pub(super) expected_batch: u32,
    /// True if a producer's sample was added in part.
    pub(super) is_broken: bool,
}

/// A worker's share of a step.
pub(super) type ShardOf<'s, P> = Shard<'s, <P as StepConfig>::Mechanism, <P as StepConfig>::Clip, CountsOf<P>>;

/// For noise that is independent from step to step. Poisson sampling has no known privacy cost with other noise.
impl<P: StepConfig<Mechanism: Mechanism<NoiseState = ()>>, FS, OS> Open<'_, P, FS, OS> {
    /// Samples the batch of this step by its [configuration](super::PrivateStep::with_poisson_batches): each index
    /// below `samples` with probability `rate`.
    ///
    /// A step of [`open_adaptive`](super::PrivateStep::open_adaptive) samples at the charged rate. A step has one
    /// batch, so every call gives the same indices.
    ///
    /// # Errors
    ///
    /// Fails if the configuration has no Poisson sampling.
    pub fn poisson_batch<'g, G: Generator>(&self, generator: &'g G) -> Result<PoissonBatch<'g, G>, CallError> {
        let Draw { rate, samples } = self.draw;
        if samples == 0 {
            return Err(CallError::Order("a draw that the configuration does not have"));
        }
        Ok(poisson(generator, self.adder.step, rate, samples))
    }
}

impl<P: StepConfig, FS, OS> Open<'_, P, FS, OS>
where
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{
    /// Returns the number of this step, counted from 0. It addresses the step's noise and batch.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.adder.step
    }

    /// Returns the clipping threshold of this step, `C_t`.
    #[must_use]
    pub fn clip(&self) -> f32 {
        self.adder.threshold
    }

    /// Returns the number of evaluation points for each sample.
    ///
    /// ```
    /// use damper_core::{filter::mix, prelude::*};
    ///
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    /// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
    /// let (params, mut point, mut combined) = ([1.0; 2], [0.0; 2], [0.0; 2]);
    /// let mut step = config.open(&mut state, &mut ledger)?;
    /// for index in 0..step.eval_points() {
    ///     let weight = step.eval_point(index, &params, &mut point)?;
    ///     // The gradient of ‖x‖²/2.
    ///     mix(index, weight, &[&point], &mut combined);
    /// }
    /// assert_eq!(combined, [1.0; 2]);
    /// step.add_combined(&[&combined])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn eval_points(&self) -> usize {
        self.filter.eval_points(self.filter_state)
    }

    /// Writes evaluation point `index` (`[D]`) to `out`. Returns the weight of its gradients, for callers that combine
    /// gradients themselves (by [`mix`](crate::filter::mix), in index order).
    ///
    /// # Errors
    ///
    /// Fails if the lengths are wrong, or the evaluation point does not exist.
    pub fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        self.filter.eval_point(self.filter_state, index, params, out)
    }

    /// Returns the samples of this step in the fixed order that its noise is accounted for
    /// ([`Participation::of_samples`](crate::noise::Participation::of_samples)). With independent noise, returns all
    /// samples of a batch at sampling rate 1.
    ///
    /// # Errors
    ///
    /// Fails if the configuration does not state the number of samples, or samples at another rate.
    ///
    /// ```
    /// use damper_core::prelude::*;
    ///
    /// // All of 100 samples in each step.
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(100);
    /// let config = config.poisson_batches(Rate::ONE, 100).build()?;
    /// let mut state = config.state::<2>();
    /// assert_eq!(config.open(&mut state, &mut Ledger::volatile(1))?.fixed_order_batch(), Ok(0..100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_order_batch(&self) -> Result<Range<u32>, CallError> {
        let batch = match (self.adder.mechanism.participation(), self.draw) {
            (Some(participation), _) => participation.batch(self.number()),
            (None, Draw { rate: Rate::ONE, samples: 1.. }) => Some(0..self.draw.samples),
            (None, _) => None,
        };
        batch.ok_or(CallError::Order("a fixed order of a number of samples that the configuration does not have"))
    }

    /// Adds one sample by its gradient at the parameters (`[D]`). A gradient with a squared norm that is not a finite
    /// f32 adds exactly nothing.
    ///
    /// # Errors
    ///
    /// Fails if the gradient has another number of elements, or the filter needs gradients at other points than the
    /// parameters ([`Open::add_points`]). Nothing is added.
    pub fn add(&mut self, grad: &[f32]) -> Result<(), CallError> {
        if !self.filter.evaluates_at_params() {
            return Err(CallError::Order("the filter wants gradients at other points than the parameters"));
        }
        self.add_combined(&[grad])
    }

    /// Adds one sample by its combined gradient over all evaluation points, `[D]` elements in consecutive `parts`. A
    /// gradient with a squared norm that is not a finite f32 adds exactly nothing.
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

    /// Borrows only the sum, to add samples to it.
    #[inline(always)]
    pub fn adding(&mut self) -> Adding<'_, P::Mechanism, P::Clip, CountsOf<P>> {
        Adding { adder: &self.adder, sum: self.sum.sum, counts: &mut self.counts }
    }

    /// Adds one sample one evaluation point at a time. Combines the gradients in `buffer` (`[D]`), in index order.
    ///
    /// # Errors
    ///
    /// Fails if the buffer has another number of elements.
    pub fn add_points<'s>(&'s mut self, buffer: &'s mut [f32]) -> Result<Mixing<'s, P, FS>, CallError> {
        check_len("the mixing buffer", self.sum.sum.len(), buffer.len())?;
        Ok(Mixing::new(&self.adder, self.sum.sum, &mut self.counts, &self.filter, self.filter_state, buffer))
    }

    /// Creates a separate sum for another worker, in the caller's memory (`[D]` words). Merge it before the step
    /// finishes.
    ///
    /// # Errors
    ///
    /// Fails if the memory has another number of words.
    pub fn shard<'s>(&self, sum: &'s mut [<P::Mechanism as Mechanism>::Word]) -> Result<ShardOf<'s, P>, CallError> {
        check_len("the shard's sum", self.sum.sum.len(), sum.len())?;
        Ok(Shard { adder: self.adder, sum: ClippedSum::new(sum), counts: self.counts.empty(), is_broken: false })
    }

    /// Checks that a shard can be merged into this step.
    ///
    /// # Errors
    ///
    /// Fails if the shard is that of another step, has another length, or is [broken](CallError::Broken).
    pub fn takes(&self, shard: &ShardOf<'_, P>) -> Result<(), CallError> {
        check_len("the shard's sum", self.sum.sum.len(), shard.sum.sum.len())?;
        if shard.is_broken {
            return Err(CallError::Broken);
        }
        if shard.adder.is_of(&self.adder) {
            Ok(())
        } else {
            Err(CallError::Order("a shard of another step or configuration"))
        }
    }

    /// Adds a shard's sum to this step's.
    ///
    /// # Errors
    ///
    /// Fails if the shard is that of another step, has another length, or is [broken](CallError::Broken).
    pub fn merge(&mut self, shard: ShardOf<'_, P>) -> Result<(), CallError> {
        self.takes(&shard)?;
        self.adder.mechanism.merge(self.sum.sum, shard.sum.sum, Inside(()));
        for (count, other) in self.counts.as_mut().iter_mut().zip(shard.counts.as_ref()) {
            *count = count.wrapping_add(*other);
        }
        self.counts.merge_non_finite(&shard.counts);
        Ok(())
    }

    /// Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[D]`). Then
    /// releases the counts and updates the threshold.
    ///
    /// # Errors
    ///
    /// Fails if `params` has another number of elements, or the step is [broken](CallError::Broken). Nothing is
    /// released, and the charge stays.
    pub fn finish<G: Generator>(mut self, params: &mut [f32], generator: &G) -> Result<(), CallError> {
        self.check_unbroken()?;
        check_len("the parameters", self.sum.sum.len(), params.len())?;
        self.move_params::<G, false>(params, generator)?;
        self.learn_threshold(params.len(), generator);
        Ok(())
    }

    /// Finishes the step as [`Open::finish`] does, with the same bits. `draw` receives the noise in `parts` parts (at
    /// most [`NoisePart::MOST`]), for example to draw them on threads.
    ///
    /// Noise that depends on other coordinates has one part, which is not passed to `draw`. Parts that `draw` leaves
    /// undrawn are drawn afterwards, so nothing is released without noise.
    ///
    /// # Errors
    ///
    /// Fails as [`Open::finish`] does.
    pub fn finish_on<G: Generator>(
        mut self,
        params: &mut [f32],
        generator: &G,
        parts: usize,
        draw: impl for<'p> FnOnce(&mut [NoisePart<'p, P::Mechanism, G>]),
    ) -> Result<(), CallError> {
        if P::Mechanism::independent_state().is_none() {
            return self.finish(params, generator);
        }
        self.check_unbroken()?;
        check_len("the parameters", self.sum.sum.len(), params.len())?;
        self.drawing(generator).each_part(self.sum.sum, 0, parts, draw);
        self.move_params::<G, true>(params, generator)?;
        self.learn_threshold(params.len(), generator);
        Ok(())
    }

    /// Returns the constants of the step's noise, shared by its parts.
    pub(super) fn drawing<'g, G>(&self, generator: &'g G) -> Drawing<'g, P::Mechanism, G> {
        let Adder { mechanism, threshold, step, .. } = self.adder;
        Drawing { mechanism, threshold, step, expected_batch: self.expected_batch, generator }
    }

    /// Fails if a producer's sample was added in part.
    pub(super) fn check_unbroken(&self) -> Result<(), CallError> {
        if self.is_broken { Err(CallError::Broken) } else { Ok(()) }
    }

    /// Releases, filters and updates. If `DRAWN`, the released values already replace the sum.
    ///
    /// # Errors
    ///
    /// Fails if the noise state does not fit the sum. Nothing is released.
    pub(super) fn move_params<G: Generator, const DRAWN: bool>(
        &mut self,
        params: &mut [f32],
        generator: &G,
    ) -> Result<(), CallError> {
        let Adder { mechanism, threshold, step, .. } = self.adder;
        // Borrowed once, so the noise uses the words that were checked.
        let mut noise_state = mechanism.lend(self.noise_state, self.sum.sum.len())?;
        let noise_std = mechanism.multiplier() * f64::from(threshold) / f64::from(self.expected_batch)
            * mechanism.begin(&mut noise_state, step, Inside(()));
        let draws_again = P::Mechanism::DRAWS_AGAIN && mechanism.draws_again(&noise_state);
        let held = self.optimizer.needs_full_gradient();
        // Some optimizers observe the whole gradient before the update. Meanwhile, the released values replace the sum.
        for looks in [true, false] {
            if looks && !held {
                continue;
            }
            let begin = Begin { lr: self.learning_rate, noise_std };
            let steps = (!looks)
                .then(|| (self.filter.begin(self.filter_state), self.optimizer.begin(self.optimizer_state, begin)));
            let mut at = 0;
            for (chunk, sum) in self.sum.sum.chunks_mut(CHUNK).enumerate() {
                let address = address(step, chunk as u32);
                let mut words = generator.stream(address);
                let mut before =
                    draws_again.then(|| generator.stream(Address { step: address.step.wrapping_sub(1), ..address }));
                for sum in sum.chunks_mut(BLOCK) {
                    let params = piece(params, at, sum.len());
                    let mut released = [0.0; BLOCK];
                    let (released, _) = released.split_at_mut(sum.len().min(BLOCK));
                    if DRAWN || held && !looks {
                        load::<P::Mechanism>(sum, released, !looks);
                    } else {
                        let (state, words) = ((at, &mut noise_state), (&mut words, before.as_mut()));
                        let scale = (threshold, self.expected_batch);
                        mechanism.release(scale, sum, state, words, released, Inside(()));
                        if looks {
                            store::<P::Mechanism>(released, sum);
                        }
                    }
                    let released = Released::new(released, noise_std);
                    match steps {
                        None => self.optimizer.observe(self.optimizer_state, at, &released),
                        Some((_, step)) if self.filter.is_identity() => {
                            self.optimizer.update(step, self.optimizer_state, at, params, &released, &released);
                        }
                        Some((filter_step, step)) => {
                            let mut filtered = [0.0; BLOCK];
                            let (filtered, _) = filtered.split_at_mut(params.len().min(BLOCK));
                            self.filter.apply(filter_step, self.filter_state, at, &released, filtered);
                            self.filter.before_update(filter_step, self.filter_state, at, params);
                            let filtered = Released::new(filtered, noise_std);
                            self.optimizer.update(step, self.optimizer_state, at, params, &filtered, &released);
                        }
                    }
                    at += params.len();
                }
            }
            let Some((filter_step, step)) = steps else { continue };
            self.optimizer.end(step, self.optimizer_state, params);
            at = 0;
            for params in params.chunks(BLOCK) {
                self.filter.after_update(filter_step, self.filter_state, at, params);
                at += params.len();
            }
        }
        mechanism.end(&mut noise_state, step, Inside(()));
        Ok(())
    }

    // A separate function on small targets: its stack frame does not exist while the parameters are updated.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn learn_threshold<G: Generator>(&mut self, dim: usize, generator: &G) {
        let Some(noise) = self.count_noise else { return };
        let Adder { mechanism, query, step, .. } = self.adder;
        let constants = StepConstants { multiplier: mechanism.multiplier(), dim, expected_batch: self.expected_batch };
        let mut words = generator.stream(Address { purpose: Purpose::HistogramNoise, step, chunk: 0 });
        let mut released = CountsOf::<P>::NONE;
        // As many counts as the query has.
        let released = released.as_mut().get_mut(..query.len()).unwrap_or_default();
        noise.release(self.counts.as_ref(), &mut words, released);
        self.threshold.update(self.threshold_state, &ReleasedCounts::new(released), constants);
    }
}

/// Streamed samples need the exact path. The float path needs the whole gradient for its bound:
///
/// ```compile_fail,E0599
/// use damper_core::{filter::Identity, noise::*, optimizer::*, step::{Open, PrivateStep}};
/// type Floats<'a> = Open<'a, PrivateStep<Identity, Sgd, ContinuousGaussian>, (), SgdState<[f32; 1]>>;
/// fn add(open: &mut Floats<'_>) {
///     let _ = open.add_streamed(|segments| segments.push(&[1.0]));
/// }
/// ```
impl<W: Word, P: StepConfig<Mechanism = DiscreteGaussian<W>>, FS, OS> Open<'_, P, FS, OS>
where
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{
    /// Adds one sample by its gradient at the parameters (`[D]`), without a stored gradient. `producer` yields the
    /// gradient in segments of any length, in order, each time it is called.
    ///
    /// The sum has the same bits as with [`Open::add`]. A gradient with a squared norm that is not a finite f32 adds
    /// exactly nothing.
    ///
    /// ```
    /// # use damper_core::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
    /// # let (mut state, mut ledger) = (config.state::<6>(), Ledger::volatile(1));
    /// # let (error, features) = ([0.5f32, -0.5], [1.0f32, 0.25, -1.0]);
    /// // A dense layer's gradient is an outer product: a row at a time is enough.
    /// let mut step = config.open(&mut state, &mut ledger)?;
    /// step.add_streamed(|segments| {
    ///     for e in error {
    ///         segments.push(&features.map(|x| e * x));
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The step calls `producer` once for the norm, once for the norm of the integers, and once to add them. Each time
    /// that the sample must be scaled down further needs another call, which is rare.
    /// [`PerLayer`](crate::clip::PerLayer) needs three calls for each layer and one for the whole. [`Segments::skip`]
    /// then saves the work of the other layers.
    ///
    /// Memory: that of the producer, and 16 words of stack (64 on 64-bit processors).
    ///
    /// # Errors
    ///
    /// Fails if the producer yields another number of coordinates in its first call, or the filter needs gradients at
    /// other points than the parameters. Nothing is added.
    ///
    /// [`CallError::Broken`] if a later call yields another gradient. At most the clip was added, and no part of the
    /// step is ever released. The charge stays. A producer that panics also breaks the step. Two calls may differ
    /// without a change of the length or of the integers' norm. Then the sample still adds at most the clip.
    pub fn add_streamed(&mut self, producer: impl FnMut(&mut Segments<'_>)) -> Result<(), CallError> {
        if !self.filter.evaluates_at_params() {
            return Err(CallError::Order("the filter wants gradients at other points than the parameters"));
        }
        self.add_combined_streamed(producer)
    }

    /// Adds a streamed sample as [`Open::add_streamed`] does, by its combined gradient over all evaluation points, a
    /// segment at a time ([`mix`](crate::filter::mix)).
    ///
    /// # Errors
    ///
    /// Fails as [`Open::add_streamed`] does, but accepts any filter.
    ///
    /// ```
    /// use damper_core::prelude::*;
    ///
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    /// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
    /// let mut step = config.open(&mut state, &mut ledger)?;
    /// step.add_combined_streamed(|segments| {
    ///     segments.push(&[0.5]);
    ///     segments.push(&[-0.2]);
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_combined_streamed(&mut self, mut producer: impl FnMut(&mut Segments<'_>)) -> Result<(), CallError> {
        self.adder.add_streamed(&mut producer, self.sum.sum, &mut self.counts, &mut self.is_broken)
    }
}
