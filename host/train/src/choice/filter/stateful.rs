//! Any filter behind one type: its configuration lies with its memory, so that a new one is a line where it is built.

use damper_core::error::CallError;
use damper_core::filter::{Filter, Identity};
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::private::Released;
use damper_core::slots::{self, StatefulSlot};
use damper_core::state::{SaveState, StateField};

/// The filter of a run; what it does is its memory's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyFilter;

/// A filter and its memory; none for no filter.
pub(crate) struct AnyFilterState(Option<Box<dyn Stateful>>);

impl AnyFilterState {
    /// No filter.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// The filter `config` with its memory.
    pub(super) fn new<F, S>(config: F, state: S) -> Self
    where
        F: Filter<S> + Digested<S> + 'static,
        S: SaveState + 'static,
    {
        Self(Some(Box::new(StatefulSlot::filter(config, state))))
    }
}

impl SaveState for AnyFilterState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        if let Some(filter) = &mut self.0 {
            filter.each(take);
        }
    }
}

impl AnyFilter {
    /// What recordings compare of its memory; none without memory.
    pub(crate) fn digest(&self, state: &AnyFilterState) -> Option<Digest> {
        state.0.as_ref().map(|filter| filter.digest())
    }
}

/// A filter that lies with its memory, and what recordings compare of it.
trait Stateful: slots::AnyFilter + SaveState {
    fn digest(&self) -> Digest;
}

impl<F: Filter<S> + Digested<S>, S: SaveState> Stateful for StatefulSlot<F, S, F::Step> {
    fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.config().add_to(self.state(), &mut digest);
        digest
    }
}

impl Filter<AnyFilterState> for AnyFilter {
    type Step = ();

    fn eval_points(&self, state: &AnyFilterState) -> usize {
        state.0.as_ref().map_or(1, |filter| filter.eval_points())
    }

    fn eval_point(
        &self,
        state: &AnyFilterState,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        match &state.0 {
            Some(filter) => filter.eval_point(index, params, out),
            None => Identity.eval_point(&(), index, params, out),
        }
    }

    fn weight(&self, state: &AnyFilterState, index: usize) -> f32 {
        state.0.as_ref().map_or(1.0, |filter| filter.weight(index))
    }

    fn check(&self, state: &AnyFilterState, dim: usize) -> Result<(), CallError> {
        state.0.as_ref().map_or(Ok(()), |filter| filter.check(dim))
    }

    fn begin(&self, state: &mut AnyFilterState) {
        if let Some(filter) = &mut state.0 {
            filter.begin();
        }
    }

    fn apply(&self, (): (), state: &mut AnyFilterState, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        match &mut state.0 {
            Some(filter) => filter.apply(at, released, filtered),
            None => Identity.apply((), &mut (), at, released, filtered),
        }
    }

    fn before_update(&self, (): (), state: &mut AnyFilterState, at: usize, params: &[f32]) {
        if let Some(filter) = &mut state.0 {
            filter.before_update(at, params);
        }
    }

    fn after_update(&self, (): (), state: &mut AnyFilterState, at: usize, params: &[f32]) {
        if let Some(filter) = &mut state.0 {
            filter.after_update(at, params);
        }
    }
}
