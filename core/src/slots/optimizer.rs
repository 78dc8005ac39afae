//! Optimizer chosen at run time.

use super::held::{AnyDigested, AnyToRecord, StatefulSlot};
use crate::error::CallError;
use crate::numerics::digest::{Digest, Digested};
use crate::optimizer::{Begin, Optimizer};
use crate::private::Released;
use crate::record::{RecordSink, ToRecord};
use core::ops::{Deref, DerefMut};

/// [`Optimizer`] as a trait object, with its state. The object stores the values that the segments of a step share.
///
/// ```
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::slots::{AnyOptimizer, OptimizerSlot, StatefulSlot};
///
/// let sgd = StatefulSlot::optimizer(Sgd::new(0.9, false, 0.0)?, SgdState { momentum: [0.0; 3] });
/// let optimizer: &dyn AnyOptimizer = &sgd;
/// assert!(optimizer.check(3).is_ok() && optimizer.check(4).is_err());
/// assert_eq!(optimizer.slot(), OptimizerSlot::of(optimizer));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait AnyOptimizer {
    /// As [`Optimizer::check`].
    ///
    /// # Errors
    ///
    /// Fails if a slice of the state has another length.
    fn check(&self, dim: usize) -> Result<(), CallError>;

    /// Returns the slot of this optimizer.
    fn slot(&self) -> OptimizerSlot;

    /// As [`Optimizer::observe`].
    fn observe(&mut self, at: usize, released: &Released<'_>);

    /// As [`Optimizer::begin`].
    fn begin(&mut self, begin: Begin);

    /// As [`Optimizer::update`]. Does nothing before the first step.
    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>);

    /// As [`Optimizer::end`]. Does nothing before the first step.
    fn end(&mut self, params: &mut [f32]);
}

impl<O: Optimizer<S>, S> StatefulSlot<O, S, O::Step> {
    /// Creates a slot from an optimizer and its state.
    pub fn optimizer(config: O, state: S) -> Self {
        Self { config, state, step: None }
    }
}

impl<O: Optimizer<S>, S> AnyOptimizer for StatefulSlot<O, S, O::Step> {
    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }

    fn slot(&self) -> OptimizerSlot {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        OptimizerSlot(
            bit(self.config.needs_full_gradient(), OptimizerSlot::FULL_GRADIENT)
                | bit(self.config.moves_by_coordinate(), OptimizerSlot::BY_COORDINATE),
        )
    }

    fn observe(&mut self, at: usize, released: &Released<'_>) {
        self.config.observe(&mut self.state, at, released);
    }

    fn begin(&mut self, begin: Begin) {
        self.step = Some(self.config.begin(&mut self.state, begin));
    }

    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>) {
        if let Some(step) = self.step {
            self.config.update(step, &mut self.state, at, params, filtered, released);
        }
    }

    fn end(&mut self, params: &mut [f32]) {
        if let Some(step) = self.step {
            self.config.end(step, &mut self.state, params);
        }
    }
}

/// Slot of an optimizer that is borrowed or boxed as its own state. It also works inside another optimizer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptimizerSlot(u8);

// Bit flags, as in a `FilterSlot`.
impl OptimizerSlot {
    const FULL_GRADIENT: u8 = 1;
    const BY_COORDINATE: u8 = 2;

    /// Returns the slot of this optimizer.
    pub fn of(optimizer: &(impl AnyOptimizer + ?Sized)) -> Self {
        optimizer.slot()
    }
}

impl<P: DerefMut<Target: AnyOptimizer>> Optimizer<P> for OptimizerSlot {
    type Step = ();

    fn check(&self, state: &P, dim: usize) -> Result<(), CallError> {
        if *self != Self::of(&**state) {
            return Err(CallError::Order("the slot of another optimizer"));
        }
        state.check(dim)
    }

    fn needs_full_gradient(&self) -> bool {
        self.0 & Self::FULL_GRADIENT != 0
    }

    fn moves_by_coordinate(&self) -> bool {
        self.0 & Self::BY_COORDINATE != 0
    }

    fn observe(&self, state: &mut P, at: usize, released: &Released<'_>) {
        state.observe(at, released);
    }

    fn begin(&self, state: &mut P, begin: Begin) {
        state.begin(begin);
    }

    fn update(
        &self,
        (): (),
        state: &mut P,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.update(at, params, filtered, released);
    }

    fn end(&self, (): (), state: &mut P, params: &mut [f32]) {
        state.end(params);
    }
}

/// For an optimizer inside another.
impl<P: DerefMut<Target: AnyDigested>> Digested<P> for OptimizerSlot {
    fn add_to(&self, state: &P, digest: &mut Digest) {
        state.add_to(digest);
    }
}

/// For an optimizer inside another.
impl<P: Deref<Target: AnyToRecord>> ToRecord<P> for OptimizerSlot {
    fn kind(&self, state: &P) -> Option<u8> {
        state.kind()
    }

    fn write(&self, state: &P, sink: &mut dyn RecordSink) {
        state.write(sink);
    }
}
