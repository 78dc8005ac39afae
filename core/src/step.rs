//! One private training step: the one public way through it.
//!
//! ```text
//! gradients of one sample ─ mix ─ clip ─ round to the grid ─ integer sum ─┐      ledger: pay, persist
//!                             └─ norm ─ counts ───────────────────────────┼──►  mechanism: add noise, release
//! params ◄─ optimizer ◄─ filter ◄─ released mean (÷ expected batch) ◄─────┤
//! next threshold ◄─ released counts ◄─────────────────────────────────────┘
//! ```
//!
//! The order is what makes the step private, so it is one type with named slots: [`PrivateStep`] is the configuration,
//! [`StepState`] the caller's memory, [`Open`] a step that has been paid for. Only [`Open::finish`] releases anything; a
//! step that is dropped half-way wipes its sum.
//!
//! ```
//! use damper_core::accounting::{Ledger, Volatile};
//! use damper_core::clip::FlatL2;
//! use damper_core::filter::Identity;
//! use damper_core::grid::Grid;
//! use damper_core::noise::{ChaCha20, DiscreteGaussian};
//! use damper_core::optimizer::{Sgd, SgdState};
//! use damper_core::schedule::Constant;
//! use damper_core::step::{PrivateStep, Slots, StepState};
//! use damper_core::threshold::Fixed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let step = PrivateStep::new(Slots {
//!     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.0)?,
//!     clip: FlatL2,
//!     threshold: Fixed(1.0),
//!     filter: Identity,
//!     optimizer: Sgd::new(0.9, false, 0.0)?,
//!     schedule: Constant(0.1),
//!     expected_batch: 4,
//! })?;
//! let mut state =
//!     StepState { sum: [0; 3], filter: (), threshold: (), optimizer: SgdState { momentum: [0.0; 3] } };
//! let (mut ledger, mut params) = (Ledger::new(10), [0.0f32; 3]);
//! let generator: ChaCha20 = ChaCha20::simulation(1);
//!
//! let mut open = step.open(&mut state, &mut ledger, &mut Volatile)?;
//! open.add_mixed(&[&[0.5, -0.2, 0.1]])?;
//! open.finish(&mut params, &generator)?;
//! # Ok(())
//! # }
//! ```
//!
//! While a step is open its sum cannot be read:
//!
//! ```compile_fail,E0503
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::schedule::Constant;
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut state = StepState { sum: [0; 3], filter: (), threshold: (), optimizer: SgdState { momentum: [0.0; 3] } };
//! # let mut ledger = Ledger::new(10);
//! let mut open = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! let peek = state.sum[0];
//! open.add_mixed(&[&[0.5, -0.2, 0.1]]).unwrap();
//! ```
//!
//! # Memory
//!
//! `D` words of sum and what filter and optimizer state in their docs; the step itself streams 64 coordinates at a time.

use crate::accounting::{Event, Ledger, Rate, RenyiFilter, Store};
use crate::clip::Clip;
use crate::count::{CountNoise, Counts, Query, ReleasedCounts};
use crate::error::{CallError, ConfigError, OpenError, check_len};
use crate::filter::{Filter, mix};
use crate::noise::{Address, CHUNK, Generator, Purpose};
use crate::optimizer::{Begin, Optimizer, piece};
use crate::private::{ClippedSum, Mechanism, Released};
use crate::schedule::Schedule;
use crate::threshold::{Facts, Threshold};

/// Coordinates released, filtered and applied at a time. Even, so that the float mechanism's pairs never straddle.
const BLOCK: usize = 64;

/// What fills the slots of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slots<M, C, T, F, O, S> {
    /// How sums are kept and released.
    pub mechanism: M,
    /// What one sample may add.
    pub clip: C,
    /// Which clip each step uses.
    pub threshold: T,
    /// What is done to released gradients.
    pub filter: F,
    /// How parameters follow.
    pub optimizer: O,
    /// The learning rate of each step, and its noise beside the mechanism's own.
    pub schedule: S,
    /// The divisor of the sum, `B`: declared, never the number of samples that came.
    pub expected_batch: u32,
}

/// The configuration of a private step: immutable and validated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrivateStep<M, C, T, F, O, S> {
    slots: Slots<M, C, T, F, O, S>,
    count_noise: Option<CountNoise>,
}

/// The memory of a run: the caller's.
#[derive(Debug)]
pub struct StepState<B, FS, TS, OS> {
    /// Scratch for the sum of a step, `[D]` words. Outside a step it is zero.
    pub sum: B,
    /// The filter's memory.
    pub filter: FS,
    /// The threshold's memory.
    pub threshold: TS,
    /// The optimizer's memory.
    pub optimizer: OS,
}

impl<M: Mechanism, C: Clip, T: Threshold, F, O, S: Schedule> PrivateStep<M, C, T, F, O, S> {
    /// Checks the slots against each other.
    ///
    /// # Errors
    ///
    /// `expected_batch` is 0 or above 2²⁴ (it must be an exact f32), the learning rate is not positive, or the
    /// schedule is out of its range.
    pub fn new(slots: Slots<M, C, T, F, O, S>) -> Result<Self, ConfigError> {
        if slots.expected_batch == 0 || slots.expected_batch > 1 << 24 {
            return Err(ConfigError::new("expected_batch", "from 1 to 2^24"));
        }
        let rate = slots.schedule.learning_rate(0);
        if !(rate.is_finite() && rate > 0.0 && (rate as f32).is_normal()) {
            return Err(ConfigError::new("learning rate", "a normal number above 0"));
        }
        slots.schedule.check()?;
        let count_noise = slots.threshold.count_noise();
        Ok(Self { slots, count_noise })
    }

    /// The event that step `step` is, at this sampling rate: gradient and counts, one draw. What is priced is what runs.
    ///
    /// # Errors
    ///
    /// The multiplier cannot be priced.
    pub fn event_at(&self, step: u32, rate: Rate) -> Result<Event, ConfigError> {
        self.event(&self.mechanism_at(step), rate)
    }

    fn event(&self, mechanism: &M, rate: Rate) -> Result<Event, ConfigError> {
        let event = Event::new(rate, mechanism.multiplier())?;
        match self.count_noise {
            Some(noise) => event.and(noise.multiplier()),
            None => Ok(event),
        }
    }

    /// The mechanism of step `step`: the slot's, scaled by the noise schedule.
    fn mechanism_at(&self, step: u32) -> M {
        self.slots.mechanism.scaled(self.slots.schedule.noise_factor(step))
    }

    /// The slots.
    pub fn slots(&self) -> &Slots<M, C, T, F, O, S> {
        &self.slots
    }

    /// Pays for a step, persists the payment, and opens the step.
    ///
    /// # Errors
    ///
    /// The budget is spent, the store failed, or the state does not fit; nothing is released.
    #[allow(clippy::type_complexity)] // One parameter a slot.
    pub fn open<'a, B, FS, OS, P: Store>(
        &'a self,
        state: &'a mut StepState<B, FS, T::State, OS>,
        ledger: &mut Ledger,
        store: &mut P,
    ) -> Result<Open<'a, M, C, T, F, FS, O, OS>, OpenError<P::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        self.check(state).map_err(OpenError::Call)?;
        let number = ledger.pay(store)?;
        Ok(self.opened(state, number, self.mechanism_at(number)))
    }

    /// Opens a step whose noise is `factor` times the mechanism's, `factor` chosen from released values: the filter pays
    /// for the event that it becomes at this sampling rate, or refuses it. The schedule's noise has no part in it.
    ///
    /// A run is paid for by a ledger or by a filter, never by both under one seed: each numbers its steps from 0, and the noise
    /// of a step follows from its number.
    ///
    /// Multipliers chosen on the way are not covered by the price of a declared schedule; without a filter whose order was
    /// fixed beforehand there is no way to choose one.
    ///
    /// # Errors
    ///
    /// The filter's budget does not admit the step, the store failed, or the state does not fit; nothing is released.
    #[allow(clippy::type_complexity)] // One parameter a slot.
    pub fn open_chosen<'a, B, FS, OS, P: Store>(
        &'a self,
        state: &'a mut StepState<B, FS, T::State, OS>,
        factor: f64,
        rate: Rate,
        filter: &mut RenyiFilter,
        store: &mut P,
    ) -> Result<Open<'a, M, C, T, F, FS, O, OS>, OpenError<P::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        self.check(state).map_err(OpenError::Call)?;
        let mechanism = self.slots.mechanism.scaled(factor);
        let event = self.event(&mechanism, rate).map_err(|_| OpenError::Call(CallError::Order(NO_PRICE)))?;
        let number = filter.pay(&event, store)?;
        Ok(self.opened(state, number, mechanism))
    }

    /// Whether the state fits, before anything is paid.
    fn check<B, FS, OS>(&self, state: &mut StepState<B, FS, T::State, OS>) -> Result<(), CallError>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let slots = &self.slots;
        let dim = state.sum.as_mut().len();
        slots.mechanism.check_clip(slots.threshold.clip(&state.threshold)).map_err(|_| CallError::Clip)?;
        if let Some(layers) = slots.clip.layers() {
            layers.check(dim)?;
        }
        if self.query(&state.threshold).len() > T::Counts::ZERO.as_ref().len() {
            return Err(CallError::Order("more counts than the threshold has memory for"));
        }
        slots.filter.check(&state.filter, dim)?;
        slots.optimizer.check(&state.optimizer, dim)
    }

    /// Counts without noise are not taken.
    fn query(&self, state: &T::State) -> Query {
        if self.count_noise.is_some() { self.slots.threshold.query(state) } else { Query::None }
    }

    #[allow(clippy::type_complexity)] // One parameter a slot.
    fn opened<'a, B, FS, OS>(
        &'a self,
        state: &'a mut StepState<B, FS, T::State, OS>,
        step: u32,
        mechanism: M,
    ) -> Open<'a, M, C, T, F, FS, O, OS>
    where
        B: AsMut<[M::Word]>,
    {
        let slots = &self.slots;
        let threshold = slots.threshold.clip(&state.threshold);
        Open {
            adder: Adder { mechanism, clip: slots.clip, threshold, query: self.query(&state.threshold), step },
            sum: ClippedSum::new(state.sum.as_mut()),
            counts: T::Counts::ZERO,
            count_noise: self.count_noise,
            filter: &slots.filter,
            filter_state: &mut state.filter,
            threshold: &slots.threshold,
            threshold_state: &mut state.threshold,
            optimizer: &slots.optimizer,
            optimizer_state: &mut state.optimizer,
            learning_rate: slots.schedule.learning_rate(step),
            expected_batch: slots.expected_batch,
        }
    }
}

const NO_PRICE: &str = "a multiplier that has no price";

/// Elements of a vector that arrives in parts.
fn total_len(parts: &[&[f32]]) -> usize {
    parts.iter().fold(0, |total, part| total.saturating_add(part.len()))
}

/// What adding a sample needs: copied into every shard.
#[derive(Clone, Copy)]
struct Adder<M, C> {
    mechanism: M,
    clip: C,
    threshold: f32,
    query: Query,
    step: u32,
}

impl<M: Mechanism, C: Clip> Adder<M, C> {
    /// Adds a sample whose length was checked, and counts it.
    fn add<K: Counts>(&self, parts: &[&[f32]], sum: &mut [M::Word], counts: &mut K) {
        if let Some(norm) = self.mechanism.add_sample(&self.clip, self.threshold, parts, sum) {
            self.query.count(norm, counts.as_mut());
        }
    }
}

/// A step that is paid for and takes samples. Dropping it releases nothing and wipes the sum; the payment stays.
pub struct Open<'a, M: Mechanism, C, T: Threshold, F, FS, O, OS> {
    adder: Adder<M, C>,
    sum: ClippedSum<'a, M::Word>,
    counts: T::Counts,
    count_noise: Option<CountNoise>,
    filter: &'a F,
    filter_state: &'a mut FS,
    threshold: &'a T,
    threshold_state: &'a mut T::State,
    optimizer: &'a O,
    optimizer_state: &'a mut OS,
    learning_rate: f64,
    expected_batch: u32,
}

impl<M: Mechanism, C: Clip, T: Threshold, F: Filter<FS>, FS, O: Optimizer<OS>, OS> Open<'_, M, C, T, F, FS, O, OS> {
    /// The number of this step, counted from 0: the address of its noise and of its draw.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.adder.step
    }

    /// The clip of this step, `C_t`.
    #[must_use]
    pub fn clip(&self) -> f32 {
        self.adder.threshold
    }

    /// At how many points each sample's gradient is wanted.
    #[must_use]
    pub fn points(&self) -> usize {
        self.filter.points(self.filter_state)
    }

    /// Writes point `index` (`[D]`) to `out`; returns the weight of the gradients taken there, for whoever mixes outside
    /// (by [`mix`], in index order).
    ///
    /// # Errors
    ///
    /// Wrong lengths, or no such point.
    pub fn point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        self.filter.point(self.filter_state, index, params, out)
    }

    /// Adds one sample whose gradients at all points are already mixed. `parts` are the consecutive parts of its gradient,
    /// `[D]` elements together. A gradient whose squared norm is not a finite f32 adds exactly nothing.
    ///
    /// # Errors
    ///
    /// The parts have another number of elements; nothing was added.
    pub fn add_mixed(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.sum.sum.len(), total_len(parts))?;
        self.adder.add(parts, self.sum.sum, &mut self.counts);
        Ok(())
    }

    /// Adds one sample point by point: the gradients are mixed in `buffer` (`[D]`), in index order.
    ///
    /// # Errors
    ///
    /// The buffer has another number of elements.
    pub fn add_points<'s>(
        &'s mut self,
        buffer: &'s mut [f32],
    ) -> Result<Mixing<'s, M, C, T::Counts, F, FS>, CallError> {
        check_len("the mixing buffer", self.sum.sum.len(), buffer.len())?;
        Ok(Mixing {
            adder: self.adder,
            sum: ClippedSumRef(self.sum.sum),
            counts: &mut self.counts,
            filter: self.filter,
            filter_state: self.filter_state,
            buffer,
            next: 0,
        })
    }

    /// A sum of its own for another worker, in memory of the caller's (`[D]` words), to be merged before the end.
    ///
    /// # Errors
    ///
    /// The memory has another number of words.
    pub fn shard<'s>(&self, sum: &'s mut [M::Word]) -> Result<Shard<'s, M, C, T::Counts>, CallError> {
        check_len("the shard's sum", self.sum.sum.len(), sum.len())?;
        Ok(Shard { adder: self.adder, sum: ClippedSum::new(sum), counts: T::Counts::ZERO })
    }

    /// Adds a shard's sum to this step's.
    ///
    /// # Errors
    ///
    /// The shard is another step's, or of another length.
    pub fn merge(&mut self, shard: Shard<'_, M, C, T::Counts>) -> Result<(), CallError> {
        check_len("the shard's sum", self.sum.sum.len(), shard.sum.sum.len())?;
        if shard.adder.step != self.adder.step {
            return Err(CallError::Order("a shard of another step"));
        }
        self.adder.mechanism.merge(self.sum.sum, shard.sum.sum);
        for (count, other) in self.counts.as_mut().iter_mut().zip(shard.counts.as_ref()) {
            *count = count.wrapping_add(*other);
        }
        Ok(())
    }

    /// Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[D]`); then releases
    /// the counts and lets the threshold learn from them.
    ///
    /// # Errors
    ///
    /// `params` has another number of elements; nothing is released, and the payment stays.
    pub fn finish<G: Generator>(mut self, params: &mut [f32], generator: &G) -> Result<(), CallError> {
        check_len("the parameters", self.sum.sum.len(), params.len())?;
        self.move_params(params, generator);
        self.learn_threshold(params.len(), generator);
        Ok(())
    }

    fn move_params<G: Generator>(&mut self, params: &mut [f32], generator: &G) {
        let Adder { mechanism, threshold, step, .. } = self.adder;
        let noise_std = mechanism.multiplier() * f64::from(threshold) / f64::from(self.expected_batch);
        let sum = &mut *self.sum.sum;
        let held = self.optimizer.looks_ahead();
        if held {
            let mut at = 0;
            for (chunk, sum) in sum.chunks_mut(CHUNK).enumerate() {
                let mut words =
                    generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 });
                for sum in sum.chunks_mut(BLOCK) {
                    let mut released = [0.0; BLOCK];
                    let (released, _) = released.split_at_mut(sum.len().min(BLOCK));
                    mechanism.release(threshold, self.expected_batch, sum, &mut words, released);
                    self.optimizer.look(self.optimizer_state, at, &Released::new(released, noise_std));
                    for (word, released) in sum.iter_mut().zip(&*released) {
                        *word = M::hold(*released);
                    }
                    at += sum.len();
                }
            }
        }
        let filter_step = self.filter.begin(self.filter_state);
        let optimizer_step = self.optimizer.begin(self.optimizer_state, Begin { lr: self.learning_rate, noise_std });
        let mut at = 0;
        for (chunk, sum) in sum.chunks_mut(CHUNK).enumerate() {
            let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 });
            for sum in sum.chunks_mut(BLOCK) {
                let params = piece(params, at, sum.len());
                let (mut released, mut filtered) = ([0.0; BLOCK], [0.0; BLOCK]);
                let (released, _) = released.split_at_mut(params.len().min(BLOCK));
                let (filtered, _) = filtered.split_at_mut(params.len().min(BLOCK));
                if held {
                    for (released, word) in released.iter_mut().zip(sum) {
                        *released = M::held(*word);
                        *word = M::Word::default();
                    }
                } else {
                    mechanism.release(threshold, self.expected_batch, sum, &mut words, released);
                }
                let released = Released::new(released, noise_std);
                self.filter.apply(filter_step, self.filter_state, at, &released, filtered);
                self.filter.leave(filter_step, self.filter_state, at, params);
                self.optimizer.update(optimizer_step, self.optimizer_state, at, params, filtered, &released);
                at += params.len();
            }
        }
        self.optimizer.end(optimizer_step, self.optimizer_state, params);
        at = 0;
        for params in params.chunks(BLOCK) {
            self.filter.arrive(filter_step, self.filter_state, at, params);
            at += params.len();
        }
    }

    fn learn_threshold<G: Generator>(&mut self, dim: usize, generator: &G) {
        let Some(noise) = self.count_noise else { return };
        let Adder { mechanism, query, step, .. } = self.adder;
        let facts = Facts { multiplier: mechanism.multiplier(), dim, expected_batch: self.expected_batch };
        let mut words = generator.stream(Address { purpose: Purpose::HistogramNoise, step, chunk: 0 });
        let mut released = T::Counts::NONE;
        // As many as were asked for.
        let released = released.as_mut().get_mut(..query.len()).unwrap_or_default();
        noise.release(self.counts.as_ref(), &mut words, released);
        self.threshold.update(self.threshold_state, &ReleasedCounts::new(released), facts);
    }
}

/// One worker's sum of a step. Dropping it adds nothing and wipes it.
pub struct Shard<'a, M: Mechanism, C, K> {
    adder: Adder<M, C>,
    sum: ClippedSum<'a, M::Word>,
    counts: K,
}

impl<M: Mechanism, C: Clip, K: Counts> Shard<'_, M, C, K> {
    /// As [`Open::add_mixed`].
    ///
    /// # Errors
    ///
    /// The parts have another number of elements; nothing was added.
    pub fn add_mixed(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.sum.sum.len(), total_len(parts))?;
        self.adder.add(parts, self.sum.sum, &mut self.counts);
        Ok(())
    }
}

/// A step's sum lent to a [`Mixing`]: not wiped when it ends.
struct ClippedSumRef<'a, W>(&'a mut [W]);

/// One sample whose gradients arrive point by point. Dropping it before [`Mixing::add`] adds nothing.
pub struct Mixing<'a, M: Mechanism, C, K, F, FS> {
    adder: Adder<M, C>,
    sum: ClippedSumRef<'a, M::Word>,
    counts: &'a mut K,
    filter: &'a F,
    filter_state: &'a FS,
    buffer: &'a mut [f32],
    next: usize,
}

impl<M: Mechanism, C: Clip, K: Counts, F: Filter<FS>, FS> Mixing<'_, M, C, K, F, FS> {
    /// Writes where the sample's next gradient is wanted (`[D]`) to `out`; `false` when there are no more points.
    ///
    /// # Errors
    ///
    /// Wrong lengths.
    pub fn next_point(&self, params: &[f32], out: &mut [f32]) -> Result<bool, CallError> {
        if self.next >= self.filter.points(self.filter_state) {
            return Ok(false);
        }
        self.filter.point(self.filter_state, self.next, params, out).map(|_| true)
    }

    /// Takes the sample's gradient at the next point, `[D]` elements in consecutive parts.
    ///
    /// # Errors
    ///
    /// Wrong length, or more points than the filter wants.
    pub fn point(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.buffer.len(), total_len(parts))?;
        if self.next >= self.filter.points(self.filter_state) {
            return Err(CallError::Order("more points than the filter wants"));
        }
        mix(self.next, self.filter.weight(self.filter_state, self.next), parts, self.buffer);
        self.next += 1;
        Ok(())
    }

    /// Clips the mixed gradient and adds it.
    ///
    /// # Errors
    ///
    /// A point is missing; nothing was added.
    pub fn add(self) -> Result<(), CallError> {
        if self.next != self.filter.points(self.filter_state) {
            return Err(CallError::Order("fewer points than the filter wants"));
        }
        self.adder.add(&[self.buffer], self.sum.0, self.counts);
        Ok(())
    }
}
