//! Optimizers: how the parameters follow the released gradient.
//!
//! An optimizer receives the filtered gradient `ĝ` and the released one `g` it was made from, in pieces of consecutive
//! coordinates, so that a step needs no gradient-sized buffer of its own. Those that scale by a second moment take it
//! from `g` and move along `ĝ`.
//!
//! # Numerics
//!
//! The pages of the optimizers write `F(x)` for `x` rounded to the nearest f32, ties to even, which may overflow to an
//! infinity, and `S(x)` for `F(x)` with an infinity replaced by the largest f32 of its sign. Every operation stands in
//! an `F` or `S` of its own; what is computed in f64 says so, and each of its operations rounds once. Saturation keeps
//! every parameter and state finite for all finite inputs: an infinity would in time become a NaN, whose bits differ
//! between processors.

mod adagrad;
mod adagrad_norm;
mod adam;
mod adam_bc;
mod base;
#[cfg(test)]
mod properties;
mod rmsprop;
mod sgd;

pub use adagrad::{AdaGrad, AdaGradState};
pub use adagrad_norm::{AdaGradNorm, AdaGradNormState, WeightedNorm, WeightedNormState};
pub use adam::{Adam, AdamState, AdamStep, Added, Denominator, Floored};
pub use adam_bc::{AdamBc, AdamBcState, AdamBcStep};
pub use base::{Begin, Optimizer};
pub use rmsprop::{RmsProp, RmsPropState};
pub use sgd::{Sgd, SgdState};

use crate::numerics::digest::Digested;
use crate::record::recorded;
pub(crate) use base::piece;

recorded!(: { Optimizer<S> + Digested<S> }; Sgd, Adam, AdamBc, AdaGrad, RmsProp);
