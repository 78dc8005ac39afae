//! Schedules: learning rates in epochs, and the noise of each step. An epoch is `N/B` draws, whatever Poisson sampling drew.

use super::rule::draws;
use super::slot::{DecayChoice, NoiseChoice};
use crate::TrainError;
use crate::replay::PackWriter;
use damper_core::accounting::Rate;
use damper_core::error::ConfigError;
use damper_core::schedule::{AnyNoise, CltNoise, Decay, LearningRate, NoiseSchedule};

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

impl LearningRateChoice {
    /// For a run of `steps` draws at `rate`.
    pub(crate) fn build(&self, rate: Rate, steps: u32) -> Result<LearningRate, TrainError> {
        self.decay.check_ranges()?;
        let decay = Decay::build(&mut self.decay.builder(0).in_run(rate.as_f64(), steps))?;
        let decay = decay.expect("the description is of the list");
        Ok(LearningRate::new(self.lr, draws(self.warmup, rate.as_f64()), decay)?)
    }

    /// Writes the learning rate of such a run as recordings have it.
    pub(crate) fn record(&self, rate: Rate, steps: u32, pack: &mut PackWriter) -> Result<(), ConfigError> {
        pack.f64(self.lr);
        pack.u32(draws(self.warmup, rate.as_f64()));
        Decay::build(&mut self.decay.recorder(pack).in_run(rate.as_f64(), steps)).map(drop)
    }
}

impl NoiseChoice {
    /// The schedule of a run whose first multiplier is `first`.
    pub(crate) fn build(&self, first: f64) -> Result<AnyNoise, ConfigError> {
        Ok(match NoiseSchedule::build(&mut self.builder(0))? {
            Some(schedule) => AnyNoise::Schedule(schedule),
            None => AnyNoise::Clt(CltNoise::new(first)?),
        })
    }

    /// Writes the schedule as recordings have it.
    pub(crate) fn record(&self, pack: &mut PackWriter) -> Result<(), ConfigError> {
        NoiseSchedule::build(&mut self.recorder(pack)).map(drop)
    }
}
