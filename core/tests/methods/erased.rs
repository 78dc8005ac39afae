//! Filters, thresholds and optimizers of any type behind one: configuration and state together are the state, and the slot
//! holds nothing. Every method of the three traits is forwarded, those with defaults too.

use crate::harness::Taken;
use damper_core::error::CallError;
use damper_core::filter::Filter;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::threshold::{CountNoise, Counts, Facts, Query, ReleasedCounts, Threshold};

/// Whatever its state says it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Any;

struct Bound<T, S, P> {
    config: T,
    state: S,
    step: Option<P>,
}

pub trait ErasedFilter {
    fn points(&self) -> usize;
    fn point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;
    fn weight(&self, index: usize) -> f32;
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn begin(&mut self);
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);
    fn leave(&mut self, at: usize, params: &[f32]);
    fn arrive(&mut self, at: usize, params: &[f32]);
}

pub type FilterMemory = Box<dyn ErasedFilter>;

pub fn filter<F: Filter<S> + 'static, S: 'static>(config: F, state: S) -> FilterMemory {
    Box::new(Bound { config, state, step: None })
}

impl<F: Filter<S>, S> ErasedFilter for Bound<F, S, F::Step> {
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
        self.config.apply(self.step.unwrap(), &mut self.state, at, released, filtered);
    }
    fn leave(&mut self, at: usize, params: &[f32]) {
        self.config.leave(self.step.unwrap(), &mut self.state, at, params);
    }
    fn arrive(&mut self, at: usize, params: &[f32]) {
        self.config.arrive(self.step.unwrap(), &mut self.state, at, params);
    }
}

impl Filter<FilterMemory> for Any {
    type Step = ();

    fn points(&self, state: &FilterMemory) -> usize {
        state.points()
    }
    fn point(&self, state: &FilterMemory, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        state.point(index, params, out)
    }
    fn weight(&self, state: &FilterMemory, index: usize) -> f32 {
        state.weight(index)
    }
    fn check(&self, state: &FilterMemory, dim: usize) -> Result<(), CallError> {
        state.check(dim)
    }
    fn begin(&self, state: &mut FilterMemory) {
        state.begin();
    }
    fn apply(&self, (): (), state: &mut FilterMemory, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        state.apply(at, released, filtered);
    }
    fn leave(&self, (): (), state: &mut FilterMemory, at: usize, params: &[f32]) {
        state.leave(at, params);
    }
    fn arrive(&self, (): (), state: &mut FilterMemory, at: usize, params: &[f32]) {
        state.arrive(at, params);
    }
}

trait ErasedOptimizer {
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn looks_ahead(&self) -> bool;
    fn look(&mut self, at: usize, released: &Released<'_>);
    fn begin(&mut self, begin: Begin);
    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>);
    fn end(&mut self, params: &mut [f32]);
}

impl<O: Optimizer<S>, S> ErasedOptimizer for Bound<O, S, O::Step> {
    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }
    fn looks_ahead(&self) -> bool {
        self.config.looks_ahead()
    }
    fn look(&mut self, at: usize, released: &Released<'_>) {
        self.config.look(&mut self.state, at, released);
    }
    fn begin(&mut self, begin: Begin) {
        self.step = Some(self.config.begin(&mut self.state, begin));
    }
    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>) {
        self.config.update(self.step.unwrap(), &mut self.state, at, params, filtered, released);
    }
    fn end(&mut self, params: &mut [f32]) {
        self.config.end(self.step.unwrap(), &mut self.state, params);
    }
}

/// The slot of an optimizer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnyOptimizer {
    /// Whether the gradient is shown whole first.
    pub looks_ahead: bool,
}

/// An optimizer that also writes down what it was given.
pub struct OptimizerMemory {
    inner: Box<dyn ErasedOptimizer>,
    looked: Vec<f32>,
    seen: Taken,
}

pub fn optimizer<O: Optimizer<S> + 'static, S: 'static>(config: O, state: S) -> OptimizerMemory {
    let inner = Box::new(Bound { config, state, step: None });
    OptimizerMemory { inner, looked: vec![], seen: Taken::default() }
}

impl OptimizerMemory {
    pub fn looks_ahead(&self) -> bool {
        self.inner.looks_ahead()
    }

    /// Writes down what this step brought.
    pub fn write(&mut self, taken: &mut Taken) {
        let seen = std::mem::take(&mut self.seen);
        let looked = std::mem::take(&mut self.looked);
        assert!(looked.is_empty() || looked == seen.released, "what was shown first is what was released");
        (taken.released, taken.filtered) = (seen.released, seen.filtered);
        (taken.noise_std, taken.lr, taken.releases.0) = (seen.noise_std, seen.lr, seen.releases.0);
    }
}

impl Optimizer<OptimizerMemory> for AnyOptimizer {
    type Step = ();

    fn check(&self, state: &OptimizerMemory, dim: usize) -> Result<(), CallError> {
        state.inner.check(dim)
    }
    fn looks_ahead(&self) -> bool {
        self.looks_ahead
    }
    fn look(&self, state: &mut OptimizerMemory, at: usize, released: &Released<'_>) {
        if state.inner.looks_ahead() {
            state.inner.look(at, released);
        }
        state.looked.extend(released.grad());
    }
    fn begin(&self, state: &mut OptimizerMemory, begin: Begin) {
        (state.seen.lr, state.seen.noise_std) = (begin.lr, begin.noise_std);
        state.seen.releases.0 += 1;
        state.inner.begin(begin);
    }
    fn update(
        &self,
        (): (),
        state: &mut OptimizerMemory,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        assert_eq!(at, state.seen.released.len(), "pieces come in order, each once");
        assert_eq!(state.seen.noise_std, released.noise_std());
        state.seen.released.extend(released.grad());
        state.seen.filtered.extend(filtered.grad());
        state.inner.update(at, params, filtered, released);
    }
    fn end(&self, (): (), state: &mut OptimizerMemory, params: &mut [f32]) {
        state.inner.end(params);
    }
}

/// The slot of a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnyThreshold {
    noise: Option<CountNoise>,
}

trait ErasedThreshold {
    fn clip(&self) -> f32;
    fn query(&self) -> Query;
    fn update(&mut self, released: &ReleasedCounts<'_>, facts: Facts);
}

impl<T: Threshold> ErasedThreshold for Bound<T, T::State, ()> {
    fn clip(&self) -> f32 {
        self.config.clip(&self.state)
    }
    fn query(&self) -> Query {
        self.config.query(&self.state)
    }
    fn update(&mut self, released: &ReleasedCounts<'_>, facts: Facts) {
        self.config.update(&mut self.state, released, facts);
    }
}

/// A threshold that also writes down what it learns from.
pub struct ThresholdMemory {
    inner: Box<dyn ErasedThreshold>,
    counts: Vec<f64>,
    releases: u32,
}

pub fn threshold<T: Threshold + 'static>(config: T, state: T::State) -> (AnyThreshold, ThresholdMemory) {
    assert!(T::Counts::ZERO.as_ref().len() <= 20, "the slot has memory for 20 counts");
    let slot = AnyThreshold { noise: config.count_noise() };
    let inner = Box::new(Bound { config, state, step: None });
    (slot, ThresholdMemory { inner, counts: vec![], releases: 0 })
}

impl ThresholdMemory {
    pub fn clip(&self) -> f32 {
        self.inner.clip()
    }

    /// Writes down what this step brought.
    pub fn write(&mut self, taken: &mut Taken) {
        taken.counts = std::mem::take(&mut self.counts);
        taken.releases.1 = std::mem::take(&mut self.releases);
    }
}

impl Threshold for AnyThreshold {
    type State = ThresholdMemory;
    type Counts = [i32; 20];

    fn clip(&self, state: &ThresholdMemory) -> f32 {
        state.inner.clip()
    }
    fn query(&self, state: &ThresholdMemory) -> Query {
        state.inner.query()
    }
    fn count_noise(&self) -> Option<CountNoise> {
        self.noise
    }
    fn update(&self, state: &mut ThresholdMemory, released: &ReleasedCounts<'_>, facts: Facts) {
        state.counts.extend(released.counts());
        state.releases += 1;
        state.inner.update(released, facts);
    }
}
