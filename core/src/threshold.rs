//! Thresholds: rules for the clip `C_t` of each step, chosen before the step from released values only.
//!
//! A rule may request counts of the step's samples ([`Query`]). They are released with noise, together with the
//! gradient, and determine the clip of the *next* step. Every clip stays within the bounds of its rule.

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
