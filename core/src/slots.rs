//! Slots that are filled at run time: one step, compiled once, for every method.
//!
//! The slots of a [`PrivateStep`] are types, so a program with one method contains the code of that method only.
//!
//! A program with several methods, or with a configured method, would contain a copy of the step for each. Here,
//! [`StatefulSlot`] pairs a filter, an optimizer or a threshold with its state. The step borrows it as a trait object.
//! The slot has the same type for every object ([`FilterSlot`], [`OptimizerSlot`], [`ThresholdSlot`], [`AnyClip`],
//! [`AnySchedule`]). Methods that a program does not name are not linked into it.
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
//! The configuration and state of each slot, and one vtable in flash for each type. A step makes a few dynamic calls
//! for each segment of coordinates, and none for a coordinate.
//!
//! A program that also saves the state ([`SaveState`](crate::state::SaveState)) lends objects of its own trait, which
//! has both traits as supertraits. Otherwise, no code for saving is linked.
//!
//! # Numerics
//!
//! The functions are those of the typed slots, so the bits are equal.
//!
//! # Privacy
//!
//! As with typed slots, an object receives released values only. A slot created for another object than the state's is
//! an error when a step opens. The count noise comes from the slot, both for the accounting and for the release.

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

/// Step with slots that are filled at run time, except the mechanism. A threshold has memory for `COUNTS` counts.
pub type AnyStep<'a, M, const COUNTS: usize = 20> =
    PrivateStep<FilterSlot, OptimizerSlot, M, ThresholdSlot<'a, COUNTS>, AnyClip<'a>, &'a AnySchedule>;

/// State of an [`AnyStep`]: sums in `B`, and the objects in the slots.
pub type AnyState<'a, B> =
    StepState<B, &'a mut (dyn AnyFilter + 'a), &'a mut (dyn AnyOptimizer + 'a), &'a mut (dyn AnyThreshold + 'a)>;
