//! Readouts: the outputs of an emitted graph, computed from the gradients' factored form.

mod clipped_sum;
mod factored;
mod norms;
mod per_sample;
mod read;

pub use clipped_sum::{ClipInputs, clipped_sum};
pub use factored::{GradOutputs, factored};
pub use norms::{norms, strategies};
pub use per_sample::per_sample;
pub use read::{GradStrategy, ParamGrad, Readout};
