//! A private method: a choice for each slot of the step but the optimizer's.

use super::TrainError;
use super::choice::{Clipping, FilterChoice, LearningRateChoice, OptimizerChoice, ThresholdChoice};
use damper_core::schedule::NoiseSchedule;

/// What `--method` and its flags chose.
#[derive(Clone, PartialEq, Debug)]
pub struct Method {
    /// `dp-sgd`, `doppler`, …
    pub name: String,
    /// What is done to gradients.
    pub filter: FilterChoice,
    /// Which clip each step uses.
    pub threshold: ThresholdChoice,
    /// What one sample may add.
    pub clipping: Clipping,
    /// The noise of each step beside the first's.
    pub noise_schedule: NoiseSchedule,
    /// The learning rate.
    pub learning_rate: LearningRateChoice,
}

impl Method {
    /// Refuses what would break a proof, with the reason.
    pub(super) fn check(&self, optimizer: &OptimizerChoice) -> Result<(), TrainError> {
        if matches!(self.noise_schedule, NoiseSchedule::Matched { .. }) && optimizer.norm_step.is_some() {
            return Err(TrainError::Flag(
                "--noise-schedule matched: with --adagrad-norm the step sizes follow released gradients, so noise matched \
                 to them would be chosen on the way, which the price of a declared schedule does not cover; declare one, \
                 such as --noise-schedule polynomial:0.05,0.5"
                    .into(),
            ));
        }
        Ok(())
    }
}
