//! One private training step: the one public way through it.
//!
//! ```text
//! gradients of one sample ─ mix ─ clip ─ round to the grid ─ integer sum ─┐      ledger: charge, persist
//!                             └─ norm ─ counts ───────────────────────────┼──►  mechanism: add noise, release
//! params ◄─ optimizer ◄─ filter ◄─ released mean (÷ expected batch) ◄─────┤
//! next threshold ◄─ released counts ◄─────────────────────────────────────┘
//! ```
//!
//! The order is what makes the step private, so it is one type with named slots: [`PrivateStep`] is the configuration,
//! [`StepState`] the caller's memory, [`Open`] a step that has been charged. Only [`Open::finish`] and [`Open::emit`] release
//! anything. A step that is dropped half-way wipes its sum. One that is forgotten (`mem::forget`) leaves it in the caller's
//! memory, as words that have no accessor; the next step wipes them before it adds anything.
//!
//! ```
//! use damper_core::accounting::Ledger;
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
//! let mut state = StepState::new([SumWord::default(); 3], (), SgdState { momentum: [0.0; 3] }, ());
//! let (mut ledger, mut params) = (Ledger::volatile(10), [0.0f32; 3]);
//! let generator: ChaCha20 = ChaCha20::simulation(1);
//!
//! let mut open = step.open(&mut state, &mut ledger)?;
//! open.add_combined(&[&[0.5, -0.2, 0.1]])?;
//! open.finish(&mut params, &generator)?;
//! # Ok(())
//! # }
//! ```
//!
//! The words of a sum are the caller's memory, and cannot be read: [`StepState`] shows the attempts that do not compile.
//!
//! # Memory
//!
//! `D` words of sum and what filter and optimizer state in their docs; the step itself streams a few dozen coordinates at a time. Beside it
//! lies the gradient of one sample, `D` floats of the caller's; with [`Open::add_streamed`] only a segment of it, at the cost of computing it
//! three times.

mod adder;
mod adding;
pub mod audit;
mod cluster;
mod config;
pub mod dp_sgd;
mod draw;
mod elsewhere;
mod emit;
mod float_sum;
mod mixing;
mod noise_part;
mod open;
mod prepare;
mod shard;
mod state;

pub use crate::clip::Segments;
pub use adding::Adding;
pub use cluster::{ExchangeError, OpenBlock, part_range};
pub use config::StepConfig;
pub use elsewhere::Elsewhere;
pub use emit::Sender;
pub use float_sum::FloatSum;
pub use mixing::Mixing;
pub use noise_part::NoisePart;
pub use open::Open;
pub use shard::Shard;
pub use state::StepState;

use crate::accounting::{Ledger, Rate, RenyiFilter, SampledGaussian, Store};
use crate::clip::{Clip, FlatL2};
use crate::count::{CountNoise, Counts as _, Query};
use crate::error::{CallError, ConfigError, OpenError};
use crate::filter::{Filter, Identity};
use crate::noise::DiscreteGaussian;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;
use crate::optimizer::{Optimizer, Sgd};
use crate::private::{ClippedSum, Mechanism};
use crate::schedule::{Constant, Schedule};
use crate::threshold::{Fixed, Threshold};
use adder::Adder;
use draw::Draw;

/// The parts in the slots of a step. The defaults are those of DP-SGD on a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slots<F = Identity, O = Sgd, M = DiscreteGaussian<i32>, T = Fixed, C = FlatL2, S = Constant> {
    /// The filter on released gradients.
    pub filter: F,
    /// The update of the parameters.
    pub optimizer: O,
    /// The storage and release of sums.
    pub mechanism: M,
    /// The clipping threshold of each step.
    pub threshold: T,
    /// The bound on one sample's contribution.
    pub clip: C,
    /// The learning rate of each step, and its noise beside the mechanism's own.
    pub schedule: S,
    /// The divisor of the sum, `B`: declared, never the number of samples that came.
    pub expected_batch: u32,
}

/// The configuration of a private step: immutable and validated. [`DpSgd`](crate::DpSgd) builds the most common one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrivateStep<F = Identity, O = Sgd, M = DiscreteGaussian<i32>, T = Fixed, C = FlatL2, S = Constant> {
    slots: Slots<F, O, M, T, C, S>,
    count_noise: Option<CountNoise>,
    /// The draw of each step.
    draw: Draw,
    /// Of all that the price depends on but the number of parameters.
    digest: Digest,
}

/// The version of the accounting. A charge under another stands for something else.
const ACCOUNTING: u32 = 1;

impl<F, O, M, T, C, S> Sealed for PrivateStep<F, O, M, T, C, S> {}

impl<F: Clone, O: Clone, M: Mechanism, T: Threshold, C: Clip, S: Schedule> StepConfig
    for PrivateStep<F, O, M, T, C, S>
{
    type Filter = F;
    type Optimizer = O;
    type Mechanism = M;
    type Threshold = T;
    type Clip = C;

    fn fingerprint(&self, dim: usize) -> u64 {
        let mut digest = self.digest;
        digest.add_word(dim as u64);
        digest.value() | 1
    }
}

impl<F: Clone, O: Clone, M: Mechanism, T: Threshold, C: Clip, S: Schedule> PrivateStep<F, O, M, T, C, S> {
    /// Checks the slots against each other.
    ///
    /// # Errors
    ///
    /// `expected_batch` is 0 or above 2²⁴ (it must be an exact f32), the learning rate is not positive, the schedule is out of its range;
    /// or the noise is correlated, and the schedule changes it or the threshold takes counts.
    pub fn new(slots: Slots<F, O, M, T, C, S>) -> Result<Self, ConfigError> {
        if slots.expected_batch == 0 || slots.expected_batch > 1 << 24 {
            return Err(ConfigError::new("expected_batch", "from 1 to 2^24"));
        }
        let rate = slots.schedule.learning_rate(0);
        if !(rate.is_finite() && rate > 0.0 && (rate as f32).is_normal()) {
            return Err(ConfigError::new("learning rate", "a normal number above 0"));
        }
        slots.schedule.check()?;
        let count_noise = slots.threshold.count_noise();
        if let Some(participation) = slots.mechanism.participation() {
            if count_noise.is_some() {
                return Err(ConfigError::new("threshold", "fixed: counts beside correlated noise have no price"));
            }
            if (0..participation.steps()).any(|step| slots.schedule.noise_factor(step) != 1.0) {
                return Err(ConfigError::new("noise schedule", "constant: correlated noise that changes has no price"));
            }
        }
        let mut digest = Digest::default();
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let counts = count_noise.map_or(0, |noise| noise.sigma());
        digest.add_words([
            pair(ACCOUNTING, slots.expected_batch),
            pair(slots.threshold.fixed_clip().to_bits(), counts),
            slots.schedule.noise_fingerprint(),
        ]);
        slots.mechanism.add_to(&mut digest);
        slots.clip.add_to(&mut digest);
        Ok(Self { slots, count_noise, draw: Draw { rate: Rate::ZERO, samples: 0 }, digest })
    }

    /// The same step with its draw: each step takes each of `samples` samples with probability `rate`
    /// ([`Open::poisson_batch`]).
    ///
    /// # Errors
    ///
    /// The noise is correlated: it has no price for Poisson draws. Or `samples` is 0.
    pub fn with_poisson_batches(mut self, rate: Rate, samples: u32) -> Result<Self, ConfigError> {
        if self.slots.mechanism.participation().is_some() {
            return Err(ConfigError::new(
                "batches",
                "in a fixed order: correlated noise has no price for Poisson draws",
            ));
        }
        if samples == 0 {
            return Err(ConfigError::new("samples", "above 0"));
        }
        self.draw = Draw { rate, samples };
        self.digest.add_word(rate.numerator());
        self.digest.add_word(samples.into());
        Ok(self)
    }

    /// The event that step `step` is, at this sampling rate: gradient and counts, one draw. What is priced is what runs.
    ///
    /// # Errors
    ///
    /// The multiplier cannot be priced, or σ on the grid is too small to be ([`Mechanism::check_noise`]); or the rate is below that of
    /// the step's own draw.
    pub fn event_at(&self, step: u32, rate: Rate) -> Result<SampledGaussian, ConfigError> {
        // Without a draw of its own the rate is 0.
        if rate < self.draw.rate {
            return Err(ConfigError::new("sampling rate", "at least that of the step's own draw"));
        }
        self.event(&self.mechanism_at(step), rate)
    }

    /// The event that a step of [`PrivateStep::open_adaptive`] with this factor is: what its filter is asked to admit.
    ///
    /// # Errors
    ///
    /// As [`PrivateStep::event_at`], or the factor is not finite and above 0.
    pub fn event_adaptive(&self, factor: f64, rate: Rate) -> Result<SampledGaussian, ConfigError> {
        self.event(&self.mechanism_adaptive(factor)?, rate)
    }

    fn event(&self, mechanism: &M, rate: Rate) -> Result<SampledGaussian, ConfigError> {
        mechanism.check_noise()?;
        let event = SampledGaussian::new(rate, mechanism.multiplier())?;
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
    fn mechanism_adaptive(&self, factor: f64) -> Result<M, ConfigError> {
        if factor.is_finite() && factor > 0.0 {
            Ok(self.slots.mechanism.scaled(factor))
        } else {
            Err(ConfigError::new("factor of the noise", "finite and above 0"))
        }
    }

    /// The slots.
    pub fn slots(&self) -> &Slots<F, O, M, T, C, S> {
        &self.slots
    }

    /// Charges a step, persists the charge, and opens the step; `None` if the budget is spent.
    ///
    /// # Errors
    ///
    /// The store failed, or the state does not fit; nothing is released.
    #[allow(clippy::type_complexity)] // A step, the end of the budget, or an error.
    pub fn begin<'a, B, FS, OS, L: Store>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        ledger: &mut Ledger<L>,
    ) -> Result<Option<Open<'a, Self, FS, OS>>, OpenError<L::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        match self.open(state, ledger) {
            Err(OpenError::BudgetSpent) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Charges a step, persists the charge, and opens the step.
    ///
    /// # Errors
    ///
    /// The budget is spent, the store failed, or the state does not fit; nothing is released.
    pub fn open<'a, B, FS, OS, L: Store>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        ledger: &mut Ledger<L>,
    ) -> Result<Open<'a, Self, FS, OS>, OpenError<L::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let checked = self.check(state).map_err(OpenError::Call)?;
        self.check_budget(ledger).map_err(OpenError::Call)?;
        let number = ledger.charge_for(self.fingerprint(checked.sum.len()))?;
        Ok(self.opened(checked, number, number, None))
    }

    /// Opens a step whose noise is `factor` times the mechanism's, `factor` chosen from released values: the filter is charged
    /// the event that it becomes at this sampling rate, or refuses it. The schedule's noise has no part in it.
    ///
    /// The steps charged to a filter are numbered from 2³¹, those of a ledger from 0: under one seed they share no noise and
    /// no draw. Each prices what was charged to it alone, so a run that uses both costs both.
    ///
    /// Multipliers chosen on the way are not covered by the price of a declared schedule; without a filter whose order was
    /// fixed in advance there is no way to choose one.
    ///
    /// # Errors
    ///
    /// The filter's budget has no room for the step, the store failed, the state does not fit, or the factor is not finite and
    /// above 0; nothing is released.
    pub fn open_adaptive<'a, B, FS, OS, P: Store>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        factor: f64,
        rate: Rate,
        filter: &mut RenyiFilter,
        store: &mut P,
    ) -> Result<Open<'a, Self, FS, OS>, OpenError<P::Error>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let checked = self.check(state).map_err(OpenError::Call)?;
        let event = self.adaptive(factor, rate).map_err(OpenError::Call)?;
        let charged = filter.charged_steps();
        let number = filter.charge_for(&event, self.fingerprint(checked.sum.len()), store)?;
        Ok(self.opened(checked, number, charged, Some((factor, rate))))
    }

    /// The event of a step with this factor.
    fn adaptive(&self, factor: f64, rate: Rate) -> Result<SampledGaussian, CallError> {
        self.event_adaptive(factor, rate).map_err(|_| CallError::Order(NO_PRICE))
    }

    /// Fails unless the ledger has no more steps than were priced together.
    fn check_budget<L>(&self, ledger: &Ledger<L>) -> Result<(), CallError> {
        match self.slots.mechanism.participation() {
            Some(participation) if ledger.budget() > participation.steps() => {
                Err(CallError::Order("a ledger of more steps than correlated noise was priced for"))
            }
            _ => Ok(()),
        }
    }

    /// The state if it fits, before anything is charged. The caller's code is asked for memory, clip and query once: what was
    /// checked is what the step uses.
    fn check<'a, B, FS, OS>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
    ) -> Result<Checked<'a, M, T, FS, OS>, CallError>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        self.check_of(state, None)
    }

    /// As [`check`](Self::check), with filter and optimizer of so many coordinates, if not of all.
    #[inline(always)]
    fn check_of<'a, B, FS, OS>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        coordinates: Option<usize>,
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
        let coordinates = coordinates.unwrap_or(dim);
        slots.filter.check(&state.filter, coordinates)?;
        slots.optimizer.check(&state.optimizer, coordinates)?;
        // What is released is made of what the memory gives then, which is checked again.
        slots.mechanism.lend(&mut state.noise, dim)?;
        let (filter, threshold, optimizer) = (&mut state.filter, &mut state.threshold, &mut state.optimizer);
        Ok(Checked { sum, filter, threshold, optimizer, noise: &mut state.noise, clip, query })
    }

    /// Counts without noise are not taken.
    fn query(&self, state: &T::State) -> Query {
        if self.count_noise.is_some() { self.slots.threshold.query(state) } else { Query::None }
    }

    /// The step of this number, after `charged` steps, with the noise factor and the rate that were chosen and charged, if they were.
    #[inline(always)] // Smaller: most programs have one.
    fn opened<'a, FS, OS>(
        &self,
        checked: Checked<'a, M, T, FS, OS>,
        step: u32,
        charged: u32,
        chosen: Option<(f64, Rate)>,
    ) -> Open<'a, Self, FS, OS> {
        let slots = &self.slots;
        let (mechanism, draw) = match chosen {
            None => (self.mechanism_at(step), self.draw),
            Some((factor, rate)) => (slots.mechanism.scaled(factor), Draw { rate, ..self.draw }),
        };
        Open {
            adder: Adder { mechanism, clip: slots.clip, threshold: checked.clip, query: checked.query, step },
            sum: ClippedSum::new(checked.sum),
            counts: slots.threshold.counts(),
            count_noise: self.count_noise,
            filter: slots.filter.clone(),
            filter_state: checked.filter,
            threshold: slots.threshold.clone(),
            threshold_state: checked.threshold,
            optimizer: slots.optimizer.clone(),
            optimizer_state: checked.optimizer,
            noise_state: checked.noise,
            draw,
            learning_rate: slots.schedule.learning_rate(charged),
            expected_batch: slots.expected_batch,
            is_broken: false,
        }
    }
}

/// A state that fits, with what its threshold said when it was checked.
struct Checked<'a, M: Mechanism, T: Threshold, FS, OS> {
    sum: &'a mut [M::Word],
    filter: &'a mut FS,
    threshold: &'a mut T::State,
    optimizer: &'a mut OS,
    noise: &'a mut M::NoiseState,
    clip: f32,
    query: Query,
}

const NO_PRICE: &str = "a noise factor that is out of range, or whose noise has no proven cost";
