//! Design and analysis of recursive filters. Filters come from names or from a cut-off. The analysis covers noise, a
//! constant gradient and the stability of training. The core's [`Iir`](damper_core::filter::Iir) runs the filter. This
//! crate does not filter gradients or train.

mod closed_loop;
mod coefficients;
mod design;
mod error;
mod poles;
mod response;
mod text;

pub use closed_loop::{largest_stable_step, noise_power, variance_ratio};
pub use coefficients::Coefficients;
pub use design::{Design, Shape};
pub use error::FilterError;
pub use poles::poles;
pub use response::{Analysis, FrequencyGain, Loop, Pole, Response};
pub use text::list;

/// Maximum order that the host supports.
pub const ORDER: usize = 16;
