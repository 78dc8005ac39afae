//! Filters: what is done to released gradients before the optimizer sees them.
//!
//! A filter also says **where** it wants gradients taken: DiSK at a point ahead of the parameters, DP-PMLF at the last
//! iterates. The gradients of one sample at all points are mixed with the filter's weights *before* the one clip, so a
//! sample adds at most `C` whatever the weights are.

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
