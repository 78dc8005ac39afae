//! Optimizers: parameter updates from released gradients.
//!
//! An optimizer receives the filtered gradient `ĝ` and the released gradient `g` that it was computed from. They arrive
//! in segments of consecutive coordinates, so a step needs no buffer of the gradient's size. Optimizers with a second
//! moment compute it from `g` and move along `ĝ`.
//!
//! # Numerics
//!
//! The pages of the optimizers write `F(x)` for `x` rounded to the nearest f32, ties to even, which may overflow to an
//! infinity. They write `S(x)` for `F(x)` with an infinity replaced by the largest f32 of its sign. Every operation has
//! an `F` or `S` of its own. Operations in f64 are marked, and each rounds once.
//!
//! Saturation keeps every parameter and state finite for all finite inputs. An infinity would eventually become a NaN,
//! and NaN bits differ between processors.

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
