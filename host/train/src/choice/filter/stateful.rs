//! Any filter behind one type: its configuration lies with its memory, so that a new one is a line where it is built.

use damper_core::error::CallError;
use damper_core::filter::{Filter, Identity};
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::private::Released;

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
        S: 'static,
    {
        Self(Some(Box::new(Of { config, state, step: None })))
    }
}

impl AnyFilter {
    /// What recordings compare of its memory; none without memory.
    pub(crate) fn digest(&self, state: &AnyFilterState) -> Option<Digest> {
        state.0.as_ref().map(|filter| filter.digest())
    }
}

/// A filter with its memory, and what the pieces of the open step share.
struct Of<F: Filter<S>, S> {
    config: F,
    state: S,
    step: Option<F::Step>,
}

const BEGUN: &str = "a step is begun before its pieces come";

/// [`Filter`] of a filter that lies with its memory.
trait Stateful {
    fn points(&self) -> usize;
    fn point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;
    fn weight(&self, index: usize) -> f32;
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn begin(&mut self);
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);
    fn leave(&mut self, at: usize, params: &[f32]);
    fn arrive(&mut self, at: usize, params: &[f32]);
    fn digest(&self) -> Digest;
}

impl<F: Filter<S> + Digested<S>, S> Stateful for Of<F, S> {
    fn points(&self) -> usize {
        self.config.points(&self.state)
    }

    fn point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        self.config.point(&self.state, index, params, out)
    }

    fn weight(&self, index: usize) -> f32 {
        self.config.weight(&self.state, index)
    }

    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }

    fn begin(&mut self) {
        self.step = Some(self.config.begin(&mut self.state));
    }

    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        self.config.apply(self.step.expect(BEGUN), &mut self.state, at, released, filtered);
    }

    fn leave(&mut self, at: usize, params: &[f32]) {
        self.config.leave(self.step.expect(BEGUN), &mut self.state, at, params);
    }

    fn arrive(&mut self, at: usize, params: &[f32]) {
        self.config.arrive(self.step.expect(BEGUN), &mut self.state, at, params);
    }

    fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.config.add_to(&self.state, &mut digest);
        digest
    }
}

impl Filter<AnyFilterState> for AnyFilter {
    type Step = ();

    fn points(&self, state: &AnyFilterState) -> usize {
        state.0.as_ref().map_or(1, |filter| filter.points())
    }

    fn point(&self, state: &AnyFilterState, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        match &state.0 {
            Some(filter) => filter.point(index, params, out),
            None => Identity.point(&(), index, params, out),
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

    fn leave(&self, (): (), state: &mut AnyFilterState, at: usize, params: &[f32]) {
        if let Some(filter) = &mut state.0 {
            filter.leave(at, params);
        }
    }

    fn arrive(&self, (): (), state: &mut AnyFilterState, at: usize, params: &[f32]) {
        if let Some(filter) = &mut state.0 {
            filter.arrive(at, params);
        }
    }
}
