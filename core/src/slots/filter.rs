//! Filter chosen at run time.

use super::held::StatefulSlot;
use crate::error::CallError;
use crate::filter::Filter;
use crate::private::Released;
use core::ops::DerefMut;

/// [`Filter`] as a trait object, with its state. The object stores the values that the segments of a step share.
///
/// ```
/// use damper_core::filter::Identity;
/// use damper_core::slots::{AnyFilter, FilterSlot, StatefulSlot};
///
/// let identity = StatefulSlot::filter(Identity, ());
/// let filter: &dyn AnyFilter = &identity;
/// assert_eq!((filter.eval_points(), filter.weight(0), filter.check(3)), (1, 1.0, Ok(())));
/// let mut point = [0.0; 3];
/// assert_eq!(filter.eval_point(0, &[1.0; 3], &mut point), Ok(1.0));
/// assert_eq!(filter.slot(), FilterSlot::of(filter));
/// ```
pub trait AnyFilter {
    /// As [`Filter::eval_points`].
    fn eval_points(&self) -> usize;

    /// Returns the slot of this filter.
    fn slot(&self) -> FilterSlot;

    /// As [`Filter::eval_point`].
    ///
    /// # Errors
    ///
    /// Fails if `out` and `params` differ in length, or the evaluation point does not exist.
    fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;

    /// As [`Filter::weight`].
    fn weight(&self, index: usize) -> f32;

    /// As [`Filter::check`].
    ///
    /// # Errors
    ///
    /// Fails if a slice of the state has another length.
    fn check(&self, dim: usize) -> Result<(), CallError>;

    /// As [`Filter::begin`].
    fn begin(&mut self);

    /// As [`Filter::apply`]. Does nothing before the first step.
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);

    /// As [`Filter::before_update`]. Does nothing before the first step.
    fn before_update(&mut self, at: usize, params: &[f32]);

    /// As [`Filter::after_update`]. Does nothing before the first step.
    fn after_update(&mut self, at: usize, params: &[f32]);
}

impl<F: Filter<S>, S> StatefulSlot<F, S, F::Step> {
    /// Creates a slot from a filter and its state.
    pub fn filter(config: F, state: S) -> Self {
        Self { config, state, step: None }
    }
}

impl<F: Filter<S>, S> AnyFilter for StatefulSlot<F, S, F::Step> {
    fn eval_points(&self) -> usize {
        self.config.eval_points(&self.state)
    }

    fn slot(&self) -> FilterSlot {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        FilterSlot(
            bit(self.config.evaluates_at_params(), FilterSlot::AT_PARAMS)
                | bit(self.config.is_identity(), FilterSlot::IDENTITY)
                | bit(self.config.filters_by_coordinate(), FilterSlot::BY_COORDINATE),
        )
    }

    fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        self.config.eval_point(&self.state, index, params, out)
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
        if let Some(step) = self.step {
            self.config.apply(step, &mut self.state, at, released, filtered);
        }
    }

    fn before_update(&mut self, at: usize, params: &[f32]) {
        if let Some(step) = self.step {
            self.config.before_update(step, &mut self.state, at, params);
        }
    }

    fn after_update(&mut self, at: usize, params: &[f32]) {
        if let Some(step) = self.step {
            self.config.after_update(step, &mut self.state, at, params);
        }
    }
}

/// Slot of a filter that is borrowed or boxed as its own state. It also works inside another filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterSlot(u8);

// Bit flags take less flash than a struct of `bool`.
impl FilterSlot {
    const AT_PARAMS: u8 = 1;
    const IDENTITY: u8 = 2;
    const BY_COORDINATE: u8 = 4;

    /// Returns the slot of this filter.
    pub fn of(filter: &(impl AnyFilter + ?Sized)) -> Self {
        filter.slot()
    }
}

impl<P: DerefMut<Target: AnyFilter>> Filter<P> for FilterSlot {
    type Step = ();

    fn eval_points(&self, state: &P) -> usize {
        state.eval_points()
    }

    fn evaluates_at_params(&self) -> bool {
        self.0 & Self::AT_PARAMS != 0
    }

    fn eval_point(&self, state: &P, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        state.eval_point(index, params, out)
    }

    fn weight(&self, state: &P, index: usize) -> f32 {
        state.weight(index)
    }

    fn check(&self, state: &P, dim: usize) -> Result<(), CallError> {
        if *self != Self::of(&**state) {
            return Err(CallError::Order("the slot of another filter"));
        }
        state.check(dim)
    }

    fn begin(&self, state: &mut P) {
        state.begin();
    }

    fn is_identity(&self) -> bool {
        self.0 & Self::IDENTITY != 0
    }

    fn filters_by_coordinate(&self) -> bool {
        self.0 & Self::BY_COORDINATE != 0
    }

    fn apply(&self, (): (), state: &mut P, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        state.apply(at, released, filtered);
    }

    fn before_update(&self, (): (), state: &mut P, at: usize, params: &[f32]) {
        state.before_update(at, params);
    }

    fn after_update(&self, (): (), state: &mut P, at: usize, params: &[f32]) {
        state.after_update(at, params);
    }
}
