//! Any optimizer behind one type: its configuration lies with its state, so that a new one is a line where it is built.

use damper_core::error::CallError;
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::optimizer::{
    AdaGradNormState, AdaGradState, AdamBcState, AdamState, Begin, Optimizer, RmsPropState, SgdState, WeightedNormState,
};
use damper_core::private::Released;
use damper_core::slots::{self, StatefulSlot};
use damper_core::state::{SaveState, StateField};

/// The optimizer of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyOptimizer {
    needs_full_gradient: bool,
}

/// An optimizer and its state.
pub(crate) struct AnyState(Box<dyn Stateful>);

impl AnyOptimizer {
    /// The optimizer `config` with its state.
    pub(crate) fn new<O, S>(config: O, state: S) -> (Self, AnyState)
    where
        O: Optimizer<S> + Digested<S> + 'static,
        S: OptimizerState + SaveState + 'static,
    {
        let needs_full_gradient = config.needs_full_gradient();
        (Self { needs_full_gradient }, AnyState(Box::new(StatefulSlot::optimizer(config, state))))
    }

    /// The digest that recordings compare; none if the state is empty.
    pub(crate) fn digest(self, state: &AnyState) -> Option<Digest> {
        let mut digest = Digest::default();
        (!state.0.is_empty()).then(|| {
            self.add_to(state, &mut digest);
            digest
        })
    }
}

impl AnyState {
    /// Averages of gradients, one a coordinate; empty if the optimizer keeps none.
    pub(crate) fn first_moments(&mut self) -> &mut [f32] {
        self.0.first_moments()
    }
}

impl SaveState for AnyState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.each(take);
    }
}

/// An optimizer's state, as GaLore and recordings see it.
pub(crate) trait OptimizerState {
    /// Averages of gradients, one a coordinate.
    fn first_moments(&mut self) -> &mut [f32] {
        &mut []
    }

    /// Returns true if nothing goes on from step to step.
    fn is_empty(&self) -> bool {
        false
    }
}

impl OptimizerState for SgdState<Vec<f32>> {
    fn first_moments(&mut self) -> &mut [f32] {
        &mut self.momentum
    }

    fn is_empty(&self) -> bool {
        self.momentum.is_empty()
    }
}

impl OptimizerState for AdamState<Vec<f32>> {
    fn first_moments(&mut self) -> &mut [f32] {
        &mut self.first
    }
}

impl OptimizerState for AdamBcState<Vec<f32>> {
    fn first_moments(&mut self) -> &mut [f32] {
        &mut self.first
    }
}

impl OptimizerState for AdaGradState<Vec<f32>> {}
impl OptimizerState for RmsPropState<Vec<f32>> {}
impl OptimizerState for AdaGradNormState<AnyState> {}
impl OptimizerState for WeightedNormState<AnyState> {}

/// An optimizer that lies with its state.
trait Stateful: slots::AnyOptimizer + SaveState {
    fn first_moments(&mut self) -> &mut [f32];

    fn is_empty(&self) -> bool;

    fn add_to(&self, digest: &mut Digest);
}

impl<O: Optimizer<S> + Digested<S>, S: OptimizerState + SaveState> Stateful for StatefulSlot<O, S, O::Step> {
    fn first_moments(&mut self) -> &mut [f32] {
        self.state_mut().first_moments()
    }

    fn is_empty(&self) -> bool {
        self.state().is_empty()
    }

    fn add_to(&self, digest: &mut Digest) {
        self.config().add_to(self.state(), digest);
    }
}

impl Optimizer<AnyState> for AnyOptimizer {
    type Step = ();

    fn check(&self, state: &AnyState, dim: usize) -> Result<(), CallError> {
        state.0.check(dim)
    }

    fn needs_full_gradient(&self) -> bool {
        self.needs_full_gradient
    }

    fn observe(&self, state: &mut AnyState, at: usize, released: &Released<'_>) {
        state.0.observe(at, released);
    }

    fn begin(&self, state: &mut AnyState, begin: Begin) {
        state.0.begin(begin);
    }

    fn update(
        &self,
        (): (),
        state: &mut AnyState,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.0.update(at, params, filtered, released);
    }

    fn end(&self, (): (), state: &mut AnyState, params: &mut [f32]) {
        state.0.end(params);
    }
}

impl Digested<AnyState> for AnyOptimizer {
    fn add_to(&self, state: &AnyState, digest: &mut Digest) {
        state.0.add_to(digest);
    }
}
