//! Thresholds: which clip `C_t` a step uses. Chosen before the step, from released values only.
//!
//! A rule may ask for counts of the step's samples ([`Query`]): they are released with noise beside the gradient, and the
//! clip learned from them is the *next* step's. All clips a rule gives lie within bounds of its own.

mod base;
mod bounds;
mod counting_all;
mod expected_error;
mod fixed;
mod histogram;
mod percentile;
mod quantile;
mod split;

pub use base::{StepConstants, Threshold};
pub use bounds::Bounds;
pub use counting_all::CountingAll;
pub use expected_error::{ExpectedError, ExpectedErrorState, PASSES, Solver};
pub use fixed::Fixed;
pub use percentile::{Percentile, PercentileState};
pub use quantile::{Quantile, QuantileState};
pub use split::gradient_multiplier;

pub use crate::count::{AllCounts, CountNoise, Counts, Query, ReleasedCounts};

use crate::record::recorded;

recorded!(: { Threshold<State = S> }; Fixed, Percentile, ExpectedError, Quantile);
