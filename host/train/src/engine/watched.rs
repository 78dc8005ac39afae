//! Wrappers of optimizers and thresholds that let an audit see the released values they receive. Their results are
//! unchanged.

use crate::choice::{AnyThresholdState, ThresholdRule};
use damper_core::error::CallError;
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::state::{SaveState, StateField};
use damper_core::threshold::{CountNoise, Query, ReleasedCounts, StepConstants, Threshold};

/// An optimizer with unchanged results.
#[derive(Clone, Copy)]
pub struct Watched<O>(pub O);

/// State of [`Watched`].
pub struct WatchedState<OS> {
    /// The optimizer's state.
    pub inner: OS,
    /// The last released values. Kept only if there is an observer.
    pub watch: Option<GradientWatch>,
}

impl<OS: SaveState> SaveState for WatchedState<OS> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.inner.each(take);
    }
}

/// The last released gradient.
#[derive(Debug)]
pub struct GradientWatch {
    /// `[D]`, before any filter.
    pub released: Vec<f32>,
    /// Standard deviation of its noise, as the core passes it to the optimizer.
    pub noise_std: f64,
}

impl GradientWatch {
    /// Creates the watch for `dim` parameters, before the first release.
    pub fn new(dim: usize) -> Self {
        Self { released: vec![0.0; dim], noise_std: 0.0 }
    }
}

impl<O: Optimizer<OS>, OS> Optimizer<WatchedState<OS>> for Watched<O> {
    type Step = O::Step;

    fn check(&self, state: &WatchedState<OS>, dim: usize) -> Result<(), CallError> {
        self.0.check(&state.inner, dim)
    }

    fn needs_full_gradient(&self) -> bool {
        self.0.needs_full_gradient()
    }

    fn moves_by_coordinate(&self) -> bool {
        self.0.moves_by_coordinate()
    }

    fn observe(&self, state: &mut WatchedState<OS>, at: usize, released: &Released<'_>) {
        self.0.observe(&mut state.inner, at, released);
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
        if let Some(watch) = &mut state.watch {
            watch.released[at..at + released.grad().len()].copy_from_slice(released.grad());
            watch.noise_std = released.noise_std();
        }
        self.0.update(step, &mut state.inner, at, params, filtered, released);
    }

    fn end(&self, step: O::Step, state: &mut WatchedState<OS>, params: &mut [f32]) {
        self.0.end(step, &mut state.inner, params);
    }
}

/// A threshold rule with unchanged results.
#[derive(Clone, Copy)]
pub struct WatchedThreshold(pub ThresholdRule);

/// State of [`WatchedThreshold`].
pub struct WatchedThresholdState {
    pub inner: AnyThresholdState,
    /// The last released values. Kept only if there is an observer.
    pub watch: Option<ThresholdWatch>,
}

impl SaveState for WatchedThresholdState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.inner.each(take);
    }
}

/// The last released counts, and a second state of the rule that learns from released counts alone.
pub struct ThresholdWatch {
    pub counts: Vec<f64>,
    pub shadow: AnyThresholdState,
}

impl Threshold for WatchedThreshold {
    type State = WatchedThresholdState;
    type Counts = <ThresholdRule as Threshold>::Counts;

    fn clip(&self, state: &WatchedThresholdState) -> f32 {
        self.0.clip(&state.inner)
    }

    fn counts(&self) -> Self::Counts {
        self.0.counts()
    }

    fn query(&self, state: &WatchedThresholdState) -> Query {
        self.0.query(&state.inner)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.0.count_noise()
    }

    fn update(&self, state: &mut WatchedThresholdState, released: &ReleasedCounts<'_>, constants: StepConstants) {
        if let Some(watch) = &mut state.watch {
            watch.counts.clear();
            watch.counts.extend_from_slice(released.counts());
            self.0.update(&mut watch.shadow, released, constants);
        }
        self.0.update(&mut state.inner, released, constants);
    }

    fn digest(&self, state: &WatchedThresholdState) -> Digest {
        self.0.digest(&state.inner)
    }
}
