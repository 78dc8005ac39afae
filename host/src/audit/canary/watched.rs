//! An optimizer that is watched: what it is given is released, and kept for the audit to see.

use damper_core::error::CallError;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;

/// An optimizer, unchanged.
pub(super) struct Watched<O>(pub(super) O);

/// Its memory, and the gradient released last.
pub(super) struct WatchedState<OS> {
    pub(super) inner: OS,
    /// `[D]`, before any filter.
    pub(super) released: Vec<f32>,
    /// Standard deviation of the noise in it.
    pub(super) noise_std: f64,
}

impl<O: Optimizer<OS>, OS> Optimizer<WatchedState<OS>> for Watched<O> {
    type Step = O::Step;

    fn check(&self, state: &WatchedState<OS>, dim: usize) -> Result<(), CallError> {
        self.0.check(&state.inner, dim)
    }

    fn looks_ahead(&self) -> bool {
        self.0.looks_ahead()
    }

    fn look(&self, state: &mut WatchedState<OS>, at: usize, released: &Released<'_>) {
        self.0.look(&mut state.inner, at, released);
    }

    fn begin(&self, state: &mut WatchedState<OS>, begin: Begin) -> O::Step {
        self.0.begin(&mut state.inner, begin)
    }

    fn update(
        &self,
        step: O::Step,
        state: &mut WatchedState<OS>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.released[at..at + released.grad().len()].copy_from_slice(released.grad());
        state.noise_std = released.noise_std();
        self.0.update(step, &mut state.inner, at, params, filtered, released);
    }

    fn end(&self, step: O::Step, state: &mut WatchedState<OS>, params: &mut [f32]) {
        self.0.end(step, &mut state.inner, params);
    }
}
