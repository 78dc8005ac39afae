//! A single type for any optimizer, which stores its configuration with its state.

use damper_core::optimizer::Optimizer;
use damper_core::slots::{AnyDigested, AnyOptimizer, AnyToRecord, OptimizerSlot, StatefulSlot};
use damper_core::state::{SaveState, StateField};

/// An optimizer with its state.
pub type OptimizerState = Box<dyn StatefulOptimizer>;

/// An optimizer that is stored with its state, as used by GaLore and recordings.
pub trait StatefulOptimizer: AnyOptimizer + SaveState + AnyDigested + AnyToRecord {
    /// See [`Optimizer::first_moments`].
    fn first_moments(&mut self) -> &mut [f32];
}

impl<O: Optimizer<S>, S> StatefulOptimizer for StatefulSlot<O, S, O::Step>
where
    Self: AnyOptimizer + SaveState + AnyDigested + AnyToRecord,
{
    fn first_moments(&mut self) -> &mut [f32] {
        let config = self.config().clone();
        config.first_moments(self.state_mut())
    }
}

impl SaveState for OptimizerState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        (**self).each(take);
    }
}

/// Returns the optimizer's slot, and the boxed optimizer with its state.
pub(super) fn boxed(held: impl StatefulOptimizer + 'static) -> (OptimizerSlot, OptimizerState) {
    (OptimizerSlot::of(&held), Box::new(held))
}
