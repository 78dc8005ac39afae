//! The methods in the slots of a step, chosen at run time. Each slot has settings by name, and one type for all of the
//! core's types.

mod by_name;
mod clip;
mod filter;
mod optimizer;
mod schedule;
mod threshold;

pub use by_name::ByName;
pub use clip::Clipping;
pub use filter::FilterChoice;
pub use filter::FilterState;
pub use optimizer::OptimizerState;
pub(crate) use optimizer::WeightDecay;
pub use optimizer::{AdamDenominator, NormStep, OptimizerChoice, OptimizerRule, SecondMoment};
pub use schedule::{DecayChoice, LearningRateChoice, NoiseChoice};
pub use threshold::{AnyThresholdState, ThresholdRule};
pub use threshold::{SolverChoice, ThresholdChoice, short};
