//! The methods in the slots of a step, chosen at run time: the core's types behind one type a slot, the host's only place for
//! such choices.

mod clip;
mod filter;
mod optimizer;
mod rule;
mod schedule;
mod slot;
mod threshold;

pub use filter::FilterState;
pub(crate) use optimizer::Decay;
pub use optimizer::OptimizerState;
pub use optimizer::{NormStep, OptimizerChoice};
pub use rule::{Choice, Slot};
pub use schedule::LearningRateChoice;
pub(crate) use slot::methods;
pub use slot::{
    Clipping, Clips, DecayChoice, Decays, FilterChoice, Filters, NoiseChoice, Noises, Optimizers, Rule,
    ThresholdChoice, Thresholds,
};
pub use threshold::short;
pub use threshold::{AnyThreshold, AnyThresholdState};
