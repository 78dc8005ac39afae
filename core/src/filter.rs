//! Filters: transforms of released gradients before the optimizer.
//!
//! A filter also chooses the **evaluation points** of the gradients. DiSK uses a point ahead of the parameters, and
//! DP-PMLF the last iterates. The gradients of one sample at all points are combined with the filter's weights *before*
//! the single clip. A sample therefore adds at most `C` with any weights.

mod adaptive_fir;
mod base;
mod identity;
mod iir;
mod kalman;
mod per_sample_momentum;

pub use adaptive_fir::{AdaptiveFir, AdaptiveFirState, AdaptiveFirStep};
pub use base::{Filter, mix};
pub use identity::Identity;
pub use iir::{Iir, IirState, IirStep, SETS, Set, Uncorrected, named};
pub use kalman::{Gain, Kalman, KalmanState, KalmanStep, LookAhead};
pub use per_sample_momentum::{PerSampleMomentum, PerSampleMomentumState};

use crate::numerics::digest::Digested;
use crate::record::recorded;

recorded!(<MOST>: { Filter<S> + Digested<S> }; Identity, Iir<MOST>, PerSampleMomentum<Iir<MOST>, MOST>, Kalman);
