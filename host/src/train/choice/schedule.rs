//! Learning rates in epochs. An epoch is `N/B` draws, whatever Poisson sampling drew.

use damper_core::accounting::Rate;
use damper_core::error::ConfigError;
use damper_core::schedule::{Decay, LearningRate};

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
    /// In steps of a run of `steps` draws at `rate`.
    pub(crate) fn build(self, rate: Rate, steps: u32) -> Result<LearningRate, ConfigError> {
        let draws = |epochs: f64| (epochs / rate.as_f64()).round().clamp(0.0, f64::from(u32::MAX)) as u32;
        let decay = match self.decay {
            DecayChoice::Constant => Decay::Constant,
            DecayChoice::Step { epochs, factor } => Decay::Step { every: draws(epochs), factor },
            DecayChoice::Cosine { floor } => Decay::Cosine { steps, floor },
            DecayChoice::Polynomial { offset, slope } => Decay::Polynomial { offset, slope },
            DecayChoice::RootLinear { floor } => Decay::RootLinear { steps, floor },
        };
        LearningRate::new(self.lr, draws(self.warmup), decay)
    }
}
