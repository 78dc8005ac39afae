//! One private training step, and the only public way to run it.
//!
//! ```text
//! gradients of one sample ─ mix ─ clip ─ round to the grid ─ integer sum ─┐      ledger: charge, persist
//!                             └─ norm ─ counts ───────────────────────────┼──►  mechanism: add noise, release
//! params ◄─ optimizer ◄─ filter ◄─ released mean (÷ expected batch) ◄─────┤
//! next threshold ◄─ released counts ◄─────────────────────────────────────┘
//! ```
//!
//! The order of operations makes the step private, so one type with named slots fixes it. [`PrivateStep`] is the
//! configuration, [`StepState`] the caller's memory, and [`Open`] a step that has been charged. Only [`Open::finish`]
//! and [`Open::emit`] release anything.
//!
//! A step that is dropped early wipes its sum. A step that is forgotten (`mem::forget`) leaves its sum in the caller's
//! memory, as words that have no accessor. The next step wipes them before it adds anything.
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
//! The words of a sum are in the caller's memory and cannot be read. [`StepState`] shows the attempts that do not
//! compile.
//!
//! # Memory
//!
//! A step needs `D` words for the sum, and the memory that the docs of the filter and the optimizer state. The step
//! itself streams a few dozen coordinates at a time.
//!
//! The caller also stores the gradient of one sample, `D` floats. With [`Open::add_streamed`] a segment of it is
//! enough, but the caller computes the gradient three times.

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

/// The components of a step, one for each slot. The defaults are those of DP-SGD on a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slots<F = Identity, O = Sgd, M = DiscreteGaussian<i32>, T = Fixed, C = FlatL2, S = Constant> {
    /// Filter on released gradients.
    pub filter: F,
    /// Update of the parameters.
    pub optimizer: O,
    /// Storage and release of sums.
    pub mechanism: M,
    /// Clipping threshold of each step.
    pub threshold: T,
    /// Bound on the contribution of one sample.
    pub clip: C,
    /// Learning rate of each step, and a factor on the mechanism's noise.
    pub schedule: S,
    /// Divisor of the sum, `B`. It is declared, and never the actual number of samples.
    pub expected_batch: u32,
}

/// Configuration of a private step: immutable and validated. [`DpSgd`](crate::DpSgd) builds the most common
/// configuration.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let config = config.with_poisson_batches(Rate::of(60, 1797)?, 1797)?;
/// assert_eq!(config.slots().expected_batch, 60);
/// let event = config.event_at(0, Rate::of(60, 1797)?)?;
/// assert!(event.multiplier() >= 1.1);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrivateStep<F = Identity, O = Sgd, M = DiscreteGaussian<i32>, T = Fixed, C = FlatL2, S = Constant> {
    slots: Slots<F, O, M, T, C, S>,
    count_noise: Option<CountNoise>,
    /// Poisson sampling of each step.
    draw: Draw,
    /// Digest of everything that determines the privacy cost, except the number of parameters.
    digest: Digest,
}

/// Version of the accounting. A charge under another version has another meaning.
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
    /// Validates the slots, each and in combination.
    ///
    /// # Errors
    ///
    /// Fails if `expected_batch` is 0 or above 2²⁴ (it must be an exact f32), the learning rate is not positive, or the
    /// schedule is out of its range. Correlated noise excludes a noise schedule that is not constant and a threshold
    /// that takes counts.
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

    /// Adds Poisson sampling to the step: each step takes each of `samples` samples with probability `rate`
    /// ([`Open::poisson_batch`]).
    ///
    /// # Errors
    ///
    /// Fails if the noise is correlated, because its privacy cost is not known for Poisson sampling. Also fails if
    /// `samples` is 0.
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

    /// Returns the accounting event of step `step` at this sampling rate: gradient and counts of one batch. The event
    /// describes exactly the step that runs.
    ///
    /// # Errors
    ///
    /// Fails if the multiplier cannot be accounted, or σ on the grid is too small ([`Mechanism::check_noise`]). Also
    /// fails if `rate` is below the sampling rate of the step.
    pub fn event_at(&self, step: u32, rate: Rate) -> Result<SampledGaussian, ConfigError> {
        // Without Poisson sampling, `self.draw.rate` is 0.
        if rate < self.draw.rate {
            return Err(ConfigError::new("sampling rate", "at least that of the step's own draw"));
        }
        self.event(&self.mechanism_at(step), rate)
    }

    /// Returns the accounting event of a step of [`PrivateStep::open_adaptive`] with this factor. The filter admits or
    /// rejects it.
    ///
    /// # Errors
    ///
    /// Fails as [`PrivateStep::event_at`] does, or if the factor is not finite and above 0.
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

    /// Returns the mechanism of step `step`: that of the slot, scaled by the noise schedule.
    fn mechanism_at(&self, step: u32) -> M {
        self.slots.mechanism.scaled(self.slots.schedule.noise_factor(step))
    }

    /// Returns the mechanism scaled by `factor`. Rejects other values first, because `scaled` maps every value into its
    /// range.
    fn mechanism_adaptive(&self, factor: f64) -> Result<M, ConfigError> {
        if factor.is_finite() && factor > 0.0 {
            Ok(self.slots.mechanism.scaled(factor))
        } else {
            Err(ConfigError::new("factor of the noise", "finite and above 0"))
        }
    }

    /// Returns the slots.
    pub fn slots(&self) -> &Slots<F, O, M, T, C, S> {
        &self.slots
    }

    /// Charges a step, persists the charge, and opens the step. Returns `None` if the budget is spent.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or the state does not fit. Nothing is released.
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
    /// Fails if the budget is spent, the store fails, or the state does not fit. Nothing is released.
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

    /// Opens a step with `factor` times the mechanism's noise, for a factor chosen from released values.
    ///
    /// The filter is charged the event of this step at this sampling rate, or rejects it. The noise schedule does not
    /// apply.
    ///
    /// Steps charged to a filter are numbered from 2³¹, and steps charged to a ledger from 0. Under one seed, they
    /// therefore share neither noise nor batches. Each accounts only for its own charges, so a run that uses both has
    /// the cost of both.
    ///
    /// The privacy cost of a declared schedule does not cover multipliers chosen during the run. They need a filter
    /// with an order fixed in advance.
    ///
    /// # Errors
    ///
    /// Fails if the filter's budget has no room for the step, the store fails, the state does not fit, or the factor is
    /// not finite and above 0. Nothing is released.
    ///
    /// ```
    /// use damper_core::accounting::{Rate, RenyiFilter, Volatile};
    /// use damper_core::prelude::*;
    ///
    /// let (rate, mut params) = (Rate::of(4, 100)?, [0.0; 2]);
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4);
    /// let config = config.poisson_batches(rate, 100).build()?;
    /// let (mut state, mut filter) = (config.state::<2>(), RenyiFilter::new(8, 3.0, 1e-5)?);
    /// // More noise while the released parameters move little.
    /// let factor = if params[0] < 0.1 { 2.0 } else { 1.0 };
    /// assert!(filter.fits_budget(&config.event_adaptive(factor, rate)?));
    /// let mut step = config.open_adaptive(&mut state, factor, rate, &mut filter, &mut Volatile)?;
    /// step.add(&[0.5, -0.2])?;
    /// step.finish(&mut params, &NoiseRng::simulation(1))?;
    /// assert!(filter.spent() > 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Returns the event of a step with this factor.
    fn adaptive(&self, factor: f64, rate: Rate) -> Result<SampledGaussian, CallError> {
        self.event_adaptive(factor, rate).map_err(|_| CallError::Order(NO_PRICE))
    }

    /// Fails if the ledger has more steps than the mechanism was accounted for.
    fn check_budget<L>(&self, ledger: &Ledger<L>) -> Result<(), CallError> {
        match self.slots.mechanism.participation() {
            Some(participation) if ledger.budget() > participation.steps() => {
                Err(CallError::Order("a ledger of more steps than correlated noise was priced for"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the state before anything is charged. Requests memory, clip and query from the caller's code once, so
    /// that the step uses what was checked.
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

    /// Checks the state as [`check`](Self::check) does. Filter and optimizer have `coordinates` coordinates if given,
    /// else all.
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
        // Only a check. The release borrows the noise state again, and checks it again.
        slots.mechanism.lend(&mut state.noise, dim)?;
        let (filter, threshold, optimizer) = (&mut state.filter, &mut state.threshold, &mut state.optimizer);
        Ok(Checked { sum, filter, threshold, optimizer, noise: &mut state.noise, clip, query })
    }

    /// Returns the threshold's query. Without count noise, no counts are taken.
    fn query(&self, state: &T::State) -> Query {
        if self.count_noise.is_some() { self.slots.threshold.query(state) } else { Query::None }
    }

    /// Opens step number `step` after `charged` steps. `chosen` has the adaptive noise factor and sampling rate, if
    /// any.
    #[inline(always)] // Smaller: most programs have one caller.
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

/// A state that was checked, with the clip and query that its threshold returned.
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
