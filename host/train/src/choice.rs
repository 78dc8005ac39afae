//! What fills the slots of a step, chosen at run time: the core's types behind one type a slot, the host's only place for
//! such choices.

mod clip;
mod filter;
mod optimizer;
mod schedule;
mod threshold;

pub use clip::Clipping;
pub(crate) use filter::FilterState;
pub use filter::{FilterChoice, LAGS, PerSample};
pub(crate) use optimizer::{Decay, OptimizerState};
pub use optimizer::{NormStep, OptimizerChoice, Rule};
pub use schedule::{DecayChoice, LearningRateChoice};
pub use threshold::short;
pub(crate) use threshold::{AnyThreshold, AnyThresholdState};
pub use threshold::{ThresholdChoice, ThresholdRule};
