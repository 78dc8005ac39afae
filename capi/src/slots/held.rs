//! Stateful slots: the objects that fill slots, with their state, in the run's memory.

use core::convert::Infallible;
use damper_core::filter::{
    Iir, IirState, IirStep, Kalman, KalmanState, KalmanStep, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, AdamBc, AdamBcState, AdamBcStep, Sgd, SgdState};
use damper_core::slots::{AnyFilter, AnyOptimizer, AnyThreshold, FilterSlot, StatefulSlot};
use damper_core::state::SaveState;
use damper_core::threshold::{Quantile, QuantileState};

/// A vector in the run's memory. It lives until the run is closed, which ends all its users.
pub(crate) type Vector<T> = &'static mut [T];

/// A filter with a state that can be saved.
pub(crate) trait KeptFilter: AnyFilter + SaveState {}
impl<T: AnyFilter + SaveState> KeptFilter for T {}

/// A threshold with a state that can be saved.
pub(crate) trait KeptThreshold: AnyThreshold + SaveState {}
impl<T: AnyThreshold + SaveState> KeptThreshold for T {}

/// An optimizer with a state that can be saved.
pub(crate) trait KeptOptimizer: AnyOptimizer + SaveState {}
impl<T: AnyOptimizer + SaveState> KeptOptimizer for T {}

/// Largest order of a recursive filter.
pub const DAMPER_MAX_ORDER: usize = 8;
/// Largest number of iterates of per-sample momentum.
pub const DAMPER_MAX_ITERATES: usize = 8;

/// A recursive filter with its state.
pub(crate) type Recursive = StatefulSlot<Iir<DAMPER_MAX_ORDER>, IirState<Vector<f32>, DAMPER_MAX_ORDER>, IirStep>;
/// DiSK's filter with its state.
pub(crate) type Disk = StatefulSlot<Kalman, KalmanState<Vector<f32>>, KalmanStep>;
/// Per-sample momentum over any other filter.
pub(crate) type Momentum = StatefulSlot<
    PerSampleMomentum<FilterSlot, DAMPER_MAX_ITERATES>,
    PerSampleMomentumState<Vector<f32>, &'static mut dyn KeptFilter>,
    (),
>;

/// Bins of a histogram of norms, as in the paper of DC-SGD.
pub const DAMPER_BINS: usize = 20;

/// Adaptive clipping with its state, the largest of the rules.
pub(crate) type Largest = StatefulSlot<Quantile, QuantileState, Infallible>;

/// DP-AdamBC, the largest of the optimizers with two moments.
pub(crate) type AdamBcHeld = StatefulSlot<AdamBc, AdamBcState<Vector<f32>>, AdamBcStep>;
/// AdaGrad-norm over SGD.
pub(crate) type Norm = StatefulSlot<AdaGradNorm<Sgd>, AdaGradNormState<SgdState<Vector<f32>>>, f32>;
