//! A private method: a choice for each slot of the step but the optimizer's.

use super::TrainError;
use super::choice::{
    Clipping, DecayChoice, FilterChoice, LearningRateChoice, OptimizerChoice, ThresholdChoice, ThresholdRule,
};
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
    /// DP-SGD at a constant learning rate, with flat clipping at `clip` and constant noise.
    #[must_use]
    pub fn dp_sgd(clip: f32, lr: f64) -> Self {
        Self {
            name: "dp-sgd".into(),
            filter: FilterChoice::None,
            threshold: ThresholdChoice { clip, rule: ThresholdRule::Fixed, bounds: None },
            clipping: Clipping::Flat,
            noise_schedule: NoiseSchedule::Constant,
            learning_rate: LearningRateChoice { lr, warmup: 0.0, decay: DecayChoice::Constant },
        }
    }

    /// Refuses numbers out of their ranges, and what would break a proof, with the reason.
    pub(super) fn check(&self, optimizer: &OptimizerChoice) -> Result<(), TrainError> {
        self.filter.build(0)?;
        self.threshold.check()?;
        self.clipping.build(&[])?;
        self.noise_schedule.check()?;
        optimizer.check()?;
        optimizer.build(&[])?;
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
