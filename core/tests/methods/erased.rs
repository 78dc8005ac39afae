//! Type erasure: filters, thresholds and optimizers of any type in one slot. Configuration and state together are the
//! state, and the slot itself is empty. Every method of the three traits is forwarded, including those with defaults.

use crate::harness::Taken;
use damper_core::error::CallError;
use damper_core::filter::Filter;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::threshold::{CountNoise, Counts, Query, ReleasedCounts, StepConstants, Threshold};

/// A slot whose state has the method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Any;

struct Bound<T, S, P> {
    config: T,
    state: S,
    step: Option<P>,
}

pub trait ErasedFilter {
    fn eval_points(&self) -> usize;
    fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;
    fn weight(&self, index: usize) -> f32;
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn begin(&mut self);
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);
    fn before_update(&mut self, at: usize, params: &[f32]);
    fn after_update(&mut self, at: usize, params: &[f32]);
}

pub type FilterMemory = Box<dyn ErasedFilter>;

pub fn filter<F: Filter<S> + 'static, S: 'static>(config: F, state: S) -> FilterMemory {
    Box::new(Bound { config, state, step: None })
}

impl<F: Filter<S>, S> ErasedFilter for Bound<F, S, F::Step> {
    fn eval_points(&self) -> usize {
        self.config.eval_points(&self.state)
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
        self.config.apply(self.step.unwrap(), &mut self.state, at, released, filtered);
    }
    fn before_update(&mut self, at: usize, params: &[f32]) {
        self.config.before_update(self.step.unwrap(), &mut self.state, at, params);
    }
    fn after_update(&mut self, at: usize, params: &[f32]) {
        self.config.after_update(self.step.unwrap(), &mut self.state, at, params);
    }
}

impl Filter<FilterMemory> for Any {
    type Step = ();

    fn eval_points(&self, state: &FilterMemory) -> usize {
        state.eval_points()
    }
    fn eval_point(
        &self,
        state: &FilterMemory,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        state.eval_point(index, params, out)
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
    fn before_update(&self, (): (), state: &mut FilterMemory, at: usize, params: &[f32]) {
        state.before_update(at, params);
    }
    fn after_update(&self, (): (), state: &mut FilterMemory, at: usize, params: &[f32]) {
        state.after_update(at, params);
    }
}

trait ErasedOptimizer {
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn needs_full_gradient(&self) -> bool;
    fn observe(&mut self, at: usize, released: &Released<'_>);
    fn begin(&mut self, begin: Begin);
    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>);
    fn end(&mut self, params: &mut [f32]);
}

impl<O: Optimizer<S>, S> ErasedOptimizer for Bound<O, S, O::Step> {
    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }
    fn needs_full_gradient(&self) -> bool {
        self.config.needs_full_gradient()
    }
    fn observe(&mut self, at: usize, released: &Released<'_>) {
        self.config.observe(&mut self.state, at, released);
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
    /// True if the optimizer observes the full gradient first.
    pub needs_full_gradient: bool,
}

/// An optimizer that also records its inputs.
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
    pub fn needs_full_gradient(&self) -> bool {
        self.inner.needs_full_gradient()
    }

    /// Records the inputs of this step in `taken`.
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
    fn needs_full_gradient(&self) -> bool {
        self.needs_full_gradient
    }
    fn observe(&self, state: &mut OptimizerMemory, at: usize, released: &Released<'_>) {
        if state.inner.needs_full_gradient() {
            state.inner.observe(at, released);
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
    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants);
}

impl<T: Threshold> ErasedThreshold for Bound<T, T::State, ()> {
    fn clip(&self) -> f32 {
        self.config.clip(&self.state)
    }
    fn query(&self) -> Query {
        self.config.query(&self.state)
    }
    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants) {
        self.config.update(&mut self.state, released, constants);
    }
}

/// A threshold that also records the counts that it gets.
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

    /// Records the counts of this step in `taken`.
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
    fn update(&self, state: &mut ThresholdMemory, released: &ReleasedCounts<'_>, constants: StepConstants) {
        state.counts.extend(released.counts());
        state.releases += 1;
        state.inner.update(released, constants);
    }
}
