//! Slots that are filled when the program runs: one step, compiled once, for every method.
//!
//! The slots of a [`PrivateStep`] are types, so that a program with one method carries that method alone.
//! One with several, or whose method comes from a configuration, would carry a copy of the step for each. Here a filter, an
//! optimizer or a threshold is [`StatefulSlot`] together with its memory and lent to the step as an object; the slot itself is the same
//! type whatever is lent ([`FilterSlot`], [`OptimizerSlot`], [`ThresholdSlot`], [`AnyClip`], [`AnySchedule`]). What is not named in
//! a program is not linked into it.
//!
//! ```
//! use damper_core::accounting::Ledger;
//! use damper_core::filter::{Gain, Identity, Kalman, KalmanState, LookAhead};
//! use damper_core::grid::Grid;
//! use damper_core::noise::{ChaCha20, DiscreteGaussian};
//! use damper_core::optimizer::{Sgd, SgdState};
//! use damper_core::private::SumWord;
//! use damper_core::slots::*;
//! use damper_core::step::{PrivateStep, Slots, StepState};
//! use damper_core::threshold::Fixed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kalman = Kalman::new(Gain::Constant(0.7), LookAhead::One)?;
//! let mut disk = StatefulSlot::filter(kalman, KalmanState::new(&kalman, [0.0; 3], [0.0; 3]));
//! let mut none = StatefulSlot::filter(Identity, ());
//! let rate = AnySchedule::constant(0.1);
//! for filter in [&mut disk as &mut dyn AnyFilter, &mut none] {
//!     let mut sgd = StatefulSlot::optimizer(Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] });
//!     let mut fixed = StatefulSlot::threshold(Fixed(1.0), ());
//!     let step: AnyStep<'_, _> = PrivateStep::new(Slots {
//!         mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.0)?,
//!         clip: AnyClip::FLAT,
//!         threshold: ThresholdSlot::of(&fixed),
//!         filter: FilterSlot::of(filter),
//!         optimizer: OptimizerSlot::of(&sgd),
//!         schedule: &rate,
//!         expected_batch: 4,
//!     })?;
//!     let mut state: AnyState<'_, _> = StepState::new([SumWord::ZERO; 3], filter, &mut sgd, &mut fixed);
//!     let (mut ledger, mut params) = (Ledger::volatile(10), [0.0f32; 3]);
//!     let generator: ChaCha20 = ChaCha20::simulation(1);
//!     let mut open = step.open(&mut state, &mut ledger)?;
//!     open.add_combined(&[&[0.5, -0.2, 0.1]])?;
//!     open.finish(&mut params, &generator)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Memory
//!
//! What is held, and a table of functions in flash for each kind of it. Calls go through the table, a few for each piece of
//! coordinates, none for a coordinate. Who also saves what is remembered ([`SaveState`](crate::state::SaveState)) lends objects of a trait of its own that asks
//! for both: else nothing of that is linked.
//!
//! # Numerics
//!
//! The functions are those of the typed slots: so are the bits.
//!
//! # Privacy
//!
//! As with typed slots: an object sees released values alone. A slot that was made for another object than the state's is refused
//! when a step is opened; the noise of counts that is priced is the slot's, and it is the noise that runs.

mod clip;
mod filter;
mod held;
mod optimizer;
mod schedule;
mod threshold;

pub use clip::AnyClip;
pub use filter::{AnyFilter, FilterSlot};
pub use held::{AnyDigested, AnyToRecord, StatefulSlot};
pub use optimizer::{AnyOptimizer, OptimizerSlot};
pub use schedule::AnySchedule;
pub use threshold::{AnyThreshold, ThresholdSlot};

use crate::step::{PrivateStep, StepState};

/// The step whose slots are filled when the program runs, but for the mechanism; with memory for `COUNTS` counts of a threshold.
pub type AnyStep<'a, M, const COUNTS: usize = 20> =
    PrivateStep<FilterSlot, OptimizerSlot, M, ThresholdSlot<'a, COUNTS>, AnyClip<'a>, &'a AnySchedule>;

/// The state of an [`AnyStep`]: sums in `B`, and the memory of the methods in the slots.
pub type AnyState<'a, B> =
    StepState<B, &'a mut (dyn AnyFilter + 'a), &'a mut (dyn AnyOptimizer + 'a), &'a mut (dyn AnyThreshold + 'a)>;
