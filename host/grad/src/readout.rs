//! What an emitted graph says of the gradients: a stage of its own over their factored form.

mod clipped_sum;
mod factored;
mod norms;
mod per_sample;
mod read;

pub use clipped_sum::{Bounds, clipped_sum};
pub use factored::{Part, factored};
pub use norms::{norms, strategies};
pub use per_sample::per_sample;
pub use read::{GradStrategy, Read, Readout};
