//! Recursive filters at the desk: names, designs from a cut-off, and what a filter does to noise, to a constant gradient
//! and to the stability of training. What runs is the core's [`Iir`](damper_core::filter::Iir). Nothing here filters a gradient or trains.

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

/// The largest order the host runs.
pub const ORDER: usize = 16;
