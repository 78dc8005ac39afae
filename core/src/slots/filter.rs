//! Any filter.

use super::held::Held;
use crate::error::CallError;
use crate::filter::Filter;
use crate::private::Released;

/// A filter with its memory: [`Filter`], where the object keeps what the pieces of a step share.
pub trait AnyFilter {
    /// As [`Filter::points`].
    fn points(&self) -> usize;

    /// As [`Filter::stays`].
    fn stays(&self) -> bool;

    /// As [`Filter::point`].
    ///
    /// # Errors
    ///
    /// `out` and `params` differ in length, or there is no such point.
    fn point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;

    /// As [`Filter::weight`].
    fn weight(&self, index: usize) -> f32;

    /// As [`Filter::check`].
    ///
    /// # Errors
    ///
    /// A slice of the memory has another length.
    fn check(&self, dim: usize) -> Result<(), CallError>;

    /// As [`Filter::begin`].
    fn begin(&mut self);

    /// As [`Filter::passes`].
    fn passes(&self) -> bool;

    /// As [`Filter::apply`]; nothing before the first step.
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);

    /// As [`Filter::leave`]; nothing before the first step.
    fn leave(&mut self, at: usize, params: &[f32]);

    /// As [`Filter::arrive`]; nothing before the first step.
    fn arrive(&mut self, at: usize, params: &[f32]);
}

impl<F: Filter<S>, S> Held<F, S, F::Step> {
    /// A filter and its memory.
    pub fn filter(config: F, state: S) -> Self {
        Self { config, state, step: None }
    }
}

impl<F: Filter<S>, S> AnyFilter for Held<F, S, F::Step> {
    fn points(&self) -> usize {
        self.config.points(&self.state)
    }

    fn stays(&self) -> bool {
        self.config.stays()
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

    fn passes(&self) -> bool {
        self.config.passes()
    }

    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        if let Some(step) = self.step {
            self.config.apply(step, &mut self.state, at, released, filtered);
        }
    }

    fn leave(&mut self, at: usize, params: &[f32]) {
        if let Some(step) = self.step {
            self.config.leave(step, &mut self.state, at, params);
        }
    }

    fn arrive(&mut self, at: usize, params: &[f32]) {
        if let Some(step) = self.step {
            self.config.arrive(step, &mut self.state, at, params);
        }
    }
}

/// The slot of a filter that is lent as its state; inside another filter too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterSlot {
    stays: bool,
    passes: bool,
}

impl FilterSlot {
    /// The slot of this filter.
    pub fn of(filter: &(impl AnyFilter + ?Sized)) -> Self {
        Self { stays: filter.stays(), passes: filter.passes() }
    }
}

impl<'a, A: AnyFilter + ?Sized> Filter<&'a mut A> for FilterSlot {
    type Step = ();

    fn points(&self, state: &&'a mut A) -> usize {
        state.points()
    }

    fn stays(&self) -> bool {
        self.stays
    }

    fn point(&self, state: &&'a mut A, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        state.point(index, params, out)
    }

    fn weight(&self, state: &&'a mut A, index: usize) -> f32 {
        state.weight(index)
    }

    fn check(&self, state: &&'a mut A, dim: usize) -> Result<(), CallError> {
        if *self != Self::of(&**state) {
            return Err(CallError::Order("the slot of another filter"));
        }
        state.check(dim)
    }

    fn begin(&self, state: &mut &'a mut A) {
        state.begin();
    }

    fn passes(&self) -> bool {
        self.passes
    }

    fn apply(&self, (): (), state: &mut &'a mut A, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        state.apply(at, released, filtered);
    }

    fn leave(&self, (): (), state: &mut &'a mut A, at: usize, params: &[f32]) {
        state.leave(at, params);
    }

    fn arrive(&self, (): (), state: &mut &'a mut A, at: usize, params: &[f32]) {
        state.arrive(at, params);
    }
}
