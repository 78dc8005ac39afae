//! A private method: a choice for each slot of the step except the optimizer.

use crate::TrainError;
use crate::choice::{
    Clipping, DecayChoice, FilterChoice, LearningRateChoice, NoiseChoice, OptimizerChoice, ThresholdChoice,
};
use damper_core::schedule::Noise as _;
use damper_onnx::SettingError;

/// A method and its settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Method {
    /// `dp-sgd`, `doppler`, …
    pub name: String,
    /// The filter on released gradients.
    pub filter: FilterChoice,
    /// The clipping threshold of each step.
    pub threshold: ThresholdChoice,
    /// True if a histogram of norms counts samples whose gradients are not finite, in its last bin.
    pub count_non_finite: bool,
    /// The bound on one sample's contribution.
    pub clipping: Clipping,
    /// The noise of each step, relative to the first step.
    pub noise_schedule: NoiseChoice,
    /// The learning rate.
    pub learning_rate: LearningRateChoice,
}

impl Method {
    /// Returns DP-SGD with a constant learning rate, flat clipping at `clip` and constant noise.
    #[must_use]
    pub fn dp_sgd(clip: f32, lr: f64) -> Self {
        Self {
            name: "dp-sgd".into(),
            filter: FilterChoice::default(),
            threshold: ThresholdChoice::Fixed { clip },
            count_non_finite: false,
            clipping: Clipping::default(),
            noise_schedule: NoiseChoice::default(),
            learning_rate: LearningRateChoice { lr, warmup: 0.0, decay: DecayChoice::default() },
        }
    }

    /// Returns an error for values out of range and for combinations that break a privacy proof.
    pub(crate) fn check(&self, optimizer: &OptimizerChoice) -> Result<(), TrainError> {
        self.filter.build(0)?;
        self.threshold.check()?;
        self.clipping.build(&[])?;
        self.noise_schedule.build(1.0)?.check()?;
        optimizer.check()?;
        optimizer.build(&[])?;
        let by_rates = match self.noise_schedule {
            NoiseChoice::Clt => Some("clt"),
            NoiseChoice::Matched { .. } => Some("matched"),
            NoiseChoice::Constant | NoiseChoice::Polynomial { .. } => None,
        };
        if let Some(kind) = by_rates
            && optimizer.norm_step.is_some()
        {
            let problem = "with `norm_step` the step sizes follow released gradients, so noise matched to them would be chosen on \
                           the way, which the price of a declared schedule does not cover; declare one, such as `noise_schedule` \
                           polynomial:0.05,0.5";
            return Err(SettingError::new("noise_schedule", kind, problem).into());
        }
        if self.count_non_finite && !self.threshold.has_histogram() {
            let problem = "no histogram of norms is counted; leave it out, or use `clip_rule` percentile";
            return Err(SettingError::new("count_non_finite", "", problem).into());
        }
        Ok(())
    }
}
