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
//! [`StepState`] the caller's memory, [`Open`] a step that has been paid for. Only [`Open::finish`] and [`Open::emit`] release
//! anything. A step that is dropped half-way wipes its sum. One that is forgotten (`mem::forget`) leaves it in the caller's
//! memory, as words that have no accessor; the next step wipes them before it adds anything.
//!
//! ```
//! use damper_core::accounting::{Ledger, Volatile};
//! use damper_core::clip::FlatL2;
//! use damper_core::filter::Identity;
//! use damper_core::grid::Grid;
//! use damper_core::noise::{ChaCha20, DiscreteGaussian};
//! use damper_core::optimizer::{Sgd, SgdState};
//! use damper_core::private::SumWord;
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
//! let mut state = StepState::new([SumWord::default(); 3], (), (), SgdState { momentum: [0.0; 3] });
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
//! The words of a sum are the caller's memory, and cannot be read: not while the step is open, nor after it was forgotten,
//!
//! ```compile_fail,E0499
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::{private::*, schedule::Constant};
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut ledger = Ledger::new(10);
//! let mut memory = [SumWord::default(); 3];
//! let mut state = StepState::new(&mut memory[..], (), (), SgdState { momentum: [0.0; 3] });
//! let mut open = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! let other = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! open.add_mixed(&[&[0.5, -0.2, 0.1]]).unwrap();
//! ```
//!
//! ```compile_fail,E0616
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::{private::*, schedule::Constant};
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut ledger = Ledger::new(10);
//! let mut state = StepState::new([SumWord::default(); 3], (), (), SgdState { momentum: [0.0; 3] });
//! let mut open = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! open.add_mixed(&[&[0.5, -0.2, 0.1]]).unwrap();
//! core::mem::forget(open);
//! let peek = state.sum;
//! ```
//!
//! ```compile_fail,E0616
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::{private::*, schedule::Constant};
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut ledger = Ledger::new(10);
//! let mut memory = [SumWord::default(); 3];
//! let mut state = StepState::new(&mut memory[..], (), (), SgdState { momentum: [0.0; 3] });
//! let mut open = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! open.add_mixed(&[&[0.5, -0.2, 0.1]]).unwrap();
//! core::mem::forget(open);
//! let peek = memory[0].0;
//! ```
//!
//! nor if the memory is a type that looks at its words when it is asked for them or dropped,
//!
//! ```compile_fail,E0369
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::{private::*, schedule::Constant};
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut ledger = Ledger::new(10);
//! struct Spy([SumWord<i32>; 3]);
//! impl AsMut<[SumWord<i32>]> for Spy {
//!     fn as_mut(&mut self) -> &mut [SumWord<i32>] {
//!         &mut self.0
//!     }
//! }
//! impl Drop for Spy {
//!     fn drop(&mut self) {
//!         let moved = self.0[0] == SumWord::ZERO;
//!     }
//! }
//! let mut state = StepState::new(Spy([SumWord::ZERO; 3]), (), (), SgdState { momentum: [0.0; 3] });
//! core::mem::forget(step.open(&mut state, &mut ledger, &mut Volatile).unwrap());
//! ```
//!
//! nor in the memory of a shard that was forgotten.
//!
//! ```compile_fail,E0605
//! # use damper_core::accounting::{Ledger, Volatile};
//! # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
//! # use damper_core::{private::*, schedule::Constant};
//! # let step = PrivateStep::new(Slots {
//! #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
//! #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
//! #     schedule: Constant(0.1),
//! #     expected_batch: 4,
//! # }).unwrap();
//! # let mut ledger = Ledger::new(10);
//! let mut state = StepState::new([SumWord::ZERO; 3], (), (), SgdState { momentum: [0.0; 3] });
//! let open = step.open(&mut state, &mut ledger, &mut Volatile).unwrap();
//! let mut memory = [SumWord::ZERO; 3];
//! let mut shard = open.shard(&mut memory).unwrap();
//! shard.add_mixed(&[&[0.5, -0.2, 0.1]]).unwrap();
//! core::mem::forget(shard);
//! let peek = memory[0] as i32;
//! ```
//!
//! # Memory
//!
//! `D` words of sum and what filter and optimizer state in their docs; the step itself streams a few dozen coordinates at a time.

mod adder;
#[cfg(feature = "audit")]
pub mod audit;
mod emit;
mod float_sum;
mod mixing;
mod open;
mod shard;

pub use emit::Sender;
pub use float_sum::FloatSum;
pub use mixing::Mixing;
pub use open::Open;
pub use shard::Shard;

use crate::accounting::{Event, Ledger, Rate, RenyiFilter, Store};
use crate::clip::Clip;
use crate::count::{CountNoise, Counts as _, Query};
use crate::error::{CallError, ConfigError, OpenError};
use crate::filter::Filter;
use crate::mutant::{self, Mutant};
use crate::optimizer::Optimizer;
use crate::private::{ClippedSum, Mechanism};
use crate::schedule::Schedule;
use crate::threshold::Threshold;
use adder::Adder;

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
    /// Scratch for the sum of a step, `[D]` words.
    sum: B,
    /// The filter's memory.
    pub filter: FS,
    /// The threshold's memory.
    pub threshold: TS,
    /// The optimizer's memory.
    pub optimizer: OS,
}

impl<B, FS, TS, OS> StepState<B, FS, TS, OS> {
    /// The memory of a run: `sum` is scratch of `[D]` words ([`SumWord`](crate::private::SumWord)). Whatever it holds, opening a step
    /// wipes it first.
    pub const fn new(sum: B, filter: FS, threshold: TS, optimizer: OS) -> Self {
        Self { sum, filter, threshold, optimizer }
    }
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
    /// The multiplier cannot be priced, or σ on the grid is too small to be ([`Mechanism::check_noise`]).
    pub fn event_at(&self, step: u32, rate: Rate) -> Result<Event, ConfigError> {
        self.event(&self.mechanism_at(step), rate)
    }

    /// The event that a step of [`PrivateStep::open_chosen`] with this factor is: what its filter is asked to admit.
    ///
    /// # Errors
    ///
    /// As [`PrivateStep::event_at`], or the factor is not finite and above 0.
    pub fn event_chosen(&self, factor: f64, rate: Rate) -> Result<Event, ConfigError> {
        self.event(&self.mechanism_chosen(factor)?, rate)
    }

    fn event(&self, mechanism: &M, rate: Rate) -> Result<Event, ConfigError> {
        mechanism.check_noise()?;
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

    /// The mechanism of a step with this factor. What is no number above 0 would become some number.
    fn mechanism_chosen(&self, factor: f64) -> Result<M, ConfigError> {
        if factor.is_finite() && factor > 0.0 {
            Ok(self.slots.mechanism.scaled(factor))
        } else {
            Err(ConfigError::new("factor of the noise", "finite and above 0"))
        }
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
        let checked = self.check(state).map_err(OpenError::Call)?;
        let number = ledger.pay(store)?;
        Ok(self.opened(checked, number, number, self.mechanism_at(number)))
    }

    /// Opens a step whose noise is `factor` times the mechanism's, `factor` chosen from released values: the filter pays
    /// for the event that it becomes at this sampling rate, or refuses it. The schedule's noise has no part in it.
    ///
    /// The steps that a filter pays for are numbered from 2³¹, those of a ledger from 0: under one seed they share no noise and
    /// no draw. Each prices what it paid for alone, so a run that uses both costs both.
    ///
    /// Multipliers chosen on the way are not covered by the price of a declared schedule; without a filter whose order was
    /// fixed beforehand there is no way to choose one.
    ///
    /// # Errors
    ///
    /// The filter's budget does not admit the step, the store failed, the state does not fit, or the factor is not finite and above
    /// 0; nothing is released.
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
        let checked = self.check(state).map_err(OpenError::Call)?;
        let refused = |_| OpenError::Call(CallError::Order(NO_PRICE));
        let mechanism = self.mechanism_chosen(factor).map_err(refused)?;
        let event = self.event(&mechanism, rate).map_err(refused)?;
        let paid = filter.paid();
        let number = filter.pay(&event, store)?;
        Ok(self.opened(checked, number, paid, mechanism))
    }

    /// The state if it fits, before anything is paid. The caller's code is asked for memory, clip and query once: what was
    /// checked is what the step uses.
    fn check<'a, B, FS, OS>(
        &self,
        state: &'a mut StepState<B, FS, T::State, OS>,
    ) -> Result<Checked<'a, M, T, FS, OS>, CallError>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let slots = &self.slots;
        let sum = state.sum.as_mut();
        let dim = sum.len();
        let clip = slots.threshold.clip(&state.threshold);
        slots.mechanism.check_clip(clip).map_err(|_| CallError::Clip)?;
        if let Some(layers) = slots.clip.layers() {
            layers.check(dim)?;
        }
        let query = self.query(&state.threshold);
        if query.len() > T::Counts::ZERO.as_ref().len() {
            return Err(CallError::Order("more counts than the threshold has memory for"));
        }
        slots.filter.check(&state.filter, dim)?;
        slots.optimizer.check(&state.optimizer, dim)?;
        let (filter, threshold, optimizer) = (&mut state.filter, &mut state.threshold, &mut state.optimizer);
        Ok(Checked { sum, filter, threshold, optimizer, clip, query })
    }

    /// Counts without noise are not taken.
    fn query(&self, state: &T::State) -> Query {
        if self.count_noise.is_some() { self.slots.threshold.query(state) } else { Query::None }
    }

    /// The step of this number, the `paid`-th of its run.
    #[allow(clippy::type_complexity)] // One parameter a slot.
    fn opened<'a, FS, OS>(
        &'a self,
        checked: Checked<'a, M, T, FS, OS>,
        step: u32,
        paid: u32,
        mechanism: M,
    ) -> Open<'a, M, C, T, F, FS, O, OS> {
        let slots = &self.slots;
        mutant::begin();
        let drifts = mutant::is(Mutant::ThresholdUnlearned) && step % 2 == 1;
        let threshold = if drifts { 1.25 * checked.clip } else { checked.clip };
        Open {
            adder: Adder { mechanism, clip: slots.clip, threshold, query: checked.query, step },
            sum: ClippedSum::new(checked.sum),
            counts: slots.threshold.counts(),
            count_noise: self.count_noise,
            filter: &slots.filter,
            filter_state: checked.filter,
            threshold: &slots.threshold,
            threshold_state: checked.threshold,
            optimizer: &slots.optimizer,
            optimizer_state: checked.optimizer,
            learning_rate: slots.schedule.learning_rate(paid),
            expected_batch: slots.expected_batch,
        }
    }
}

/// A state that fits, with what its threshold said when it was checked.
struct Checked<'a, M: Mechanism, T: Threshold, FS, OS> {
    sum: &'a mut [M::Word],
    filter: &'a mut FS,
    threshold: &'a mut T::State,
    optimizer: &'a mut OS,
    clip: f32,
    query: Query,
}

const NO_PRICE: &str = "a multiplier that has no price";
