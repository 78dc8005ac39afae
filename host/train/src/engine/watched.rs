//! Watched optimizers and thresholds: an audit sees the values that were released to them. They work unchanged.

use crate::choice::{AnyThresholdState, ThresholdRule};
use damper_core::error::CallError;
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::state::{SaveState, StateField};
use damper_core::threshold::{CountNoise, Query, ReleasedCounts, StepConstants, Threshold};

/// An optimizer, unchanged.
#[derive(Clone, Copy)]
pub struct Watched<O>(pub O);

/// Its memory.
pub struct WatchedState<OS> {
    /// The optimizer's.
    pub inner: OS,
    /// The values released last; kept only if somebody watches.
    pub watch: Option<GradientWatch>,
}

impl<OS: SaveState> SaveState for WatchedState<OS> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.inner.each(take);
    }
}

/// The gradient released last.
#[derive(Debug)]
pub struct GradientWatch {
    /// `[D]`, before any filter.
    pub released: Vec<f32>,
    /// Standard deviation of the noise in it, as the core gives it to the optimizer.
    pub noise_std: f64,
}

impl GradientWatch {
    /// Of `dim` parameters, before the first release.
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

/// A rule for the clip, unchanged.
#[derive(Clone, Copy)]
pub struct WatchedThreshold(pub ThresholdRule);

/// Its memory.
pub struct WatchedThresholdState {
    pub inner: AnyThresholdState,
    /// The values released to it; kept only if somebody watches.
    pub watch: Option<ThresholdWatch>,
}

impl SaveState for WatchedThresholdState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.inner.each(take);
    }
}

/// The counts released last, and a second memory of the rule that learns from released counts alone.
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
