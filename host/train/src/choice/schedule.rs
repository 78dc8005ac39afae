//! Learning rates in epochs. An epoch is `N/B` draws, whatever Poisson sampling drew.

use crate::TrainError;
use damper_core::accounting::Rate;
use damper_core::schedule::{Decay, LearningRate};
use damper_onnx::SettingError;

/// The learning rate and how it changes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LearningRateChoice {
    /// `η`.
    pub lr: f64,
    /// Epochs over which it rises to `η`.
    pub warmup: f64,
    /// How it falls.
    pub decay: DecayChoice,
}

/// How a learning rate falls.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DecayChoice {
    /// Not at all.
    Constant,
    /// By `factor` every so many epochs.
    Step {
        /// Epochs between falls.
        epochs: f64,
        /// What is kept at each.
        factor: f64,
    },
    /// Half a cosine over the run, down to `floor` times `η`.
    Cosine {
        /// What is left at the end.
        floor: f64,
    },
    /// `1/√(offset + slope·t)`, `t` in steps.
    Polynomial {
        /// `a`.
        offset: f64,
        /// `c`.
        slope: f64,
    },
    /// `1 − (1 − floor)·√(t/T)` over the run.
    RootLinear {
        /// What is left at the end.
        floor: f64,
    },
}

impl LearningRateChoice {
    /// For a run of `steps` draws at `rate`.
    pub(crate) fn build(self, rate: Rate, steps: u32) -> Result<LearningRate, TrainError> {
        let (warmup, decay) = self.in_steps(rate, steps)?;
        Ok(LearningRate::new(self.lr, warmup, decay)?)
    }

    /// The warm-up and the decay in steps. A part of an epoch is at least one step.
    pub(crate) fn in_steps(self, rate: Rate, steps: u32) -> Result<(u32, Decay), TrainError> {
        self.decay.check()?;
        let draws = |epochs: f64| match (epochs / rate.as_f64()).round().clamp(0.0, f64::from(u32::MAX)) as u32 {
            0 if epochs > 0.0 => 1,
            draws => draws,
        };
        let decay = match self.decay {
            DecayChoice::Constant => Decay::Constant,
            DecayChoice::Step { epochs, factor } => Decay::Step { every: draws(epochs), factor },
            DecayChoice::Cosine { floor } => Decay::Cosine { steps, floor },
            DecayChoice::Polynomial { offset, slope } => Decay::Polynomial { offset, slope },
            DecayChoice::RootLinear { floor } => Decay::RootLinear { steps, floor },
        };
        Ok((draws(self.warmup), decay))
    }
}

impl DecayChoice {
    /// Refuses numbers out of their ranges.
    fn check(self) -> Result<(), TrainError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let share = |x: f64| (0.0..=1.0).contains(&x);
        let (value, problem) = match self {
            Self::Step { epochs, factor } if !positive(epochs) => {
                (format!("step:{epochs},{factor}"), "EPOCHS must be finite and above 0")
            }
            Self::Step { epochs, factor } if !(share(factor) && factor > 0.0) => {
                (format!("step:{epochs},{factor}"), "FACTOR must be above 0 and at most 1")
            }
            Self::Cosine { floor } if !share(floor) => (format!("cosine:{floor}"), "FLOOR must be from 0 to 1"),
            Self::RootLinear { floor } if !share(floor) => {
                (format!("root-linear:{floor}"), "FLOOR must be from 0 to 1")
            }
            Self::Polynomial { offset, slope } if !positive(offset) => {
                (format!("polynomial:{offset},{slope}"), "A must be finite and above 0")
            }
            Self::Polynomial { offset, slope } if !(slope.is_finite() && slope >= 0.0) => {
                (format!("polynomial:{offset},{slope}"), "C must be finite and not negative")
            }
            _ => return Ok(()),
        };
        Err(SettingError::new("decay", value, problem).into())
    }
}
