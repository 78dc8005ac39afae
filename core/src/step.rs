//! One private training step: the one public way through it.
//!
//! ```text
//! gradients of one sample ─ mix ─ clip ─ round to the grid ─ integer sum ─┐      ledger: pay, persist
//!                                                                         ├──►  mechanism: add noise, release
//! params ◄─ optimizer ◄─ filter ◄─ released mean (÷ expected batch) ◄─────┘
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
//! use damper_core::schedule::LearningRate;
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
//!     learning_rate: LearningRate::Constant(0.1),
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
//! # use damper_core::schedule::LearningRate;
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     learning_rate: LearningRate::Constant(0.1), expected_batch: 4,
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

use crate::accounting::{Event, Ledger, Rate, Store};
use crate::clip::Clip;
use crate::error::{CallError, ConfigError, OpenError, check_len};
use crate::filter::Filter;
use crate::noise::{Address, CHUNK, Generator, Purpose};
use crate::optimizer::Optimizer;
use crate::private::{ClippedSum, Mechanism, Released};
use crate::schedule::LearningRate;
use crate::threshold::Threshold;

/// Coordinates released, filtered and applied at a time. Even, so that the float mechanism's pairs never straddle.
const BLOCK: usize = 64;

/// What fills the slots of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slots<M, C, T, F, O> {
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
    /// The learning rate at each step.
    pub learning_rate: LearningRate,
    /// The divisor of the sum, `B`: declared, never the number of samples that came.
    pub expected_batch: u32,
}

/// The configuration of a private step: immutable and validated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrivateStep<M, C, T, F, O> {
    slots: Slots<M, C, T, F, O>,
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

impl<M: Mechanism, C: Clip, T, F, O> PrivateStep<M, C, T, F, O> {
    /// Checks the slots against each other.
    ///
    /// # Errors
    ///
    /// `expected_batch` is 0 or above 2²⁴ (it must be an exact f32), or the learning rate is not positive.
    pub fn new(slots: Slots<M, C, T, F, O>) -> Result<Self, ConfigError> {
        if slots.expected_batch == 0 || slots.expected_batch > 1 << 24 {
            return Err(ConfigError::new("expected_batch", "from 1 to 2^24"));
        }
        let rate = slots.learning_rate.at(0);
        if !(rate.is_finite() && rate > 0.0 && (rate as f32).is_normal()) {
            return Err(ConfigError::new("learning rate", "a normal number above 0"));
        }
        Ok(Self { slots })
    }

    /// The event that every step of this configuration is, at this sampling rate: what is priced is what runs.
    ///
    /// # Errors
    ///
    /// The multiplier cannot be priced.
    pub fn event(&self, rate: Rate) -> Result<Event, ConfigError> {
        Event::new(rate, self.slots.mechanism.multiplier())
    }

    /// The slots.
    pub fn slots(&self) -> &Slots<M, C, T, F, O> {
        &self.slots
    }

    /// Pays for a step, persists the payment, and opens the step.
    ///
    /// # Errors
    ///
    /// The budget is spent, the store failed, or the state does not fit; nothing is released.
    #[allow(clippy::type_complexity)] // One parameter a slot.
    pub fn open<'a, B, FS, TS, OS, S: Store>(
        &'a self,
        state: &'a mut StepState<B, FS, TS, OS>,
        ledger: &mut Ledger,
        store: &mut S,
    ) -> Result<Open<'a, M, C, F, FS, O, OS>, OpenError<S::Error>>
    where
        B: AsMut<[M::Word]>,
        T: Threshold<TS>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let slots = &self.slots;
        let sum = state.sum.as_mut();
        let threshold = slots.threshold.clip(&state.threshold);
        slots.mechanism.check_clip(threshold).map_err(|_| OpenError::Call(CallError::Clip))?;
        slots.filter.check(&state.filter, sum.len()).map_err(OpenError::Call)?;
        slots.optimizer.check(&state.optimizer, sum.len()).map_err(OpenError::Call)?;
        let number = ledger.pay(store)?;
        Ok(Open {
            adder: Adder { mechanism: slots.mechanism, clip: slots.clip, threshold, step: number },
            sum: ClippedSum::new(sum),
            filter: &slots.filter,
            filter_state: &mut state.filter,
            optimizer: &slots.optimizer,
            optimizer_state: &mut state.optimizer,
            learning_rate: slots.learning_rate.at(number),
            expected_batch: slots.expected_batch,
        })
    }
}

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
    step: u32,
}

impl<M: Mechanism, C: Clip> Adder<M, C> {
    fn add(&self, parts: &[&[f32]], sum: &mut ClippedSum<'_, M::Word>) -> Result<(), CallError> {
        check_len("the gradient", sum.sum.len(), total_len(parts))?;
        self.mechanism.add_sample(&self.clip, self.threshold, parts, sum.sum);
        Ok(())
    }
}

/// A step that is paid for and takes samples. Dropping it releases nothing and wipes the sum; the payment stays.
pub struct Open<'a, M: Mechanism, C, F, FS, O, OS> {
    adder: Adder<M, C>,
    sum: ClippedSum<'a, M::Word>,
    filter: &'a F,
    filter_state: &'a mut FS,
    optimizer: &'a O,
    optimizer_state: &'a mut OS,
    learning_rate: f64,
    expected_batch: u32,
}

impl<M: Mechanism, C: Clip, F: Filter<FS>, FS, O: Optimizer<OS>, OS> Open<'_, M, C, F, FS, O, OS> {
    /// The number of this step, counted from 0: the address of its noise and of its draw.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.adder.step
    }

    /// At how many points each sample's gradient is wanted.
    #[must_use]
    pub fn points(&self) -> usize {
        self.filter.points(self.filter_state)
    }

    /// Writes point `index` (`[D]`) to `out`; returns the weight of the gradients taken there, for whoever mixes outside.
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
        self.adder.add(parts, &mut self.sum)
    }

    /// Adds one sample point by point: the gradients are mixed in `buffer` (`[D]`), in index order.
    ///
    /// # Errors
    ///
    /// The buffer has another number of elements.
    pub fn add_points<'s>(&'s mut self, buffer: &'s mut [f32]) -> Result<Mixing<'s, M, C, F, FS>, CallError> {
        check_len("the mixing buffer", self.sum.sum.len(), buffer.len())?;
        Ok(Mixing {
            adder: self.adder,
            sum: ClippedSumRef(self.sum.sum),
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
    pub fn shard<'s>(&self, sum: &'s mut [M::Word]) -> Result<Shard<'s, M, C>, CallError> {
        check_len("the shard's sum", self.sum.sum.len(), sum.len())?;
        Ok(Shard { adder: self.adder, sum: ClippedSum::new(sum) })
    }

    /// Adds a shard's sum to this step's.
    ///
    /// # Errors
    ///
    /// The shard is another step's, or of another length.
    pub fn merge(&mut self, shard: Shard<'_, M, C>) -> Result<(), CallError> {
        check_len("the shard's sum", self.sum.sum.len(), shard.sum.sum.len())?;
        if shard.adder.step != self.adder.step {
            return Err(CallError::Order("a shard of another step"));
        }
        self.adder.mechanism.merge(self.sum.sum, shard.sum.sum);
        Ok(())
    }

    /// Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[D]`).
    ///
    /// # Errors
    ///
    /// `params` has another number of elements; nothing is released, and the payment stays.
    pub fn finish<G: Generator>(self, params: &mut [f32], generator: &G) -> Result<(), CallError> {
        check_len("the parameters", self.sum.sum.len(), params.len())?;
        let Adder { mechanism, threshold, step, .. } = self.adder;
        let noise_std = mechanism.multiplier() * f64::from(threshold) / f64::from(self.expected_batch);
        let filter_step = self.filter.begin(self.filter_state);
        let optimizer_step = self.optimizer.begin(self.optimizer_state, self.learning_rate);
        let mut at = 0;
        for (chunk, (sum, params)) in self.sum.sum.chunks_mut(CHUNK).zip(params.chunks_mut(CHUNK)).enumerate() {
            let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 });
            for (sum, params) in sum.chunks_mut(BLOCK).zip(params.chunks_mut(BLOCK)) {
                let (mut released, mut filtered) = ([0.0; BLOCK], [0.0; BLOCK]);
                let (released, _) = released.split_at_mut(params.len().min(BLOCK));
                let (filtered, _) = filtered.split_at_mut(params.len().min(BLOCK));
                mechanism.release(threshold, self.expected_batch, sum, &mut words, released);
                let released = Released::new(released, noise_std);
                self.filter.apply(filter_step, self.filter_state, at, &released, filtered);
                self.optimizer.update(optimizer_step, self.optimizer_state, at, params, filtered, &released);
                at += params.len();
            }
        }
        Ok(())
    }
}

/// One worker's sum of a step. Dropping it adds nothing and wipes it.
pub struct Shard<'a, M: Mechanism, C> {
    adder: Adder<M, C>,
    sum: ClippedSum<'a, M::Word>,
}

impl<M: Mechanism, C: Clip> Shard<'_, M, C> {
    /// As [`Open::add_mixed`].
    ///
    /// # Errors
    ///
    /// The parts have another number of elements; nothing was added.
    pub fn add_mixed(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        self.adder.add(parts, &mut self.sum)
    }
}

/// A step's sum lent to a [`Mixing`]: not wiped when it ends.
struct ClippedSumRef<'a, W>(&'a mut [W]);

/// One sample whose gradients arrive point by point. Dropping it before [`Mixing::add`] adds nothing.
pub struct Mixing<'a, M: Mechanism, C, F, FS> {
    adder: Adder<M, C>,
    sum: ClippedSumRef<'a, M::Word>,
    filter: &'a F,
    filter_state: &'a FS,
    buffer: &'a mut [f32],
    next: usize,
}

impl<M: Mechanism, C: Clip, F: Filter<FS>, FS> Mixing<'_, M, C, F, FS> {
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
        let weight = self.filter.weight(self.filter_state, self.next);
        for (mixed, grad) in self.buffer.iter_mut().zip(parts.iter().copied().flatten()) {
            // The first point replaces: `0 + w·g` would lose the sign of a zero.
            *mixed = if self.next == 0 { weight * grad } else { *mixed + weight * grad };
        }
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
        self.adder.mechanism.add_sample(&self.adder.clip, self.adder.threshold, &[self.buffer], self.sum.0);
        Ok(())
    }
}
