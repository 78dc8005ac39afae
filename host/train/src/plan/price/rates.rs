//! Sampling rates and the number of steps. They are public, and fixed before any noise.

use crate::engine::sampler::{epoch_steps, steps_per_event};
use crate::{Terms, TrainConfig, TrainError};
use damper_accounting::Sampler;
use damper_core::accounting::Rate;
use damper_core::schedule::{AnyNoise, LearningRate};
use damper_onnx::SettingError;

/// The rates of a run and its number of steps.
pub(super) struct Rates {
    /// The number of samples that the rate refers to.
    pub(super) declared: u64,
    pub(super) rate: Rate,
    /// The rate of an event.
    pub(super) event_rate: Rate,
    pub(super) steps: u32,
    pub(super) steps_per_event: u32,
}

impl Rates {
    /// Returns the rates of a run on `samples` samples.
    pub(super) fn new(config: &TrainConfig, samples: u64) -> Result<Self, TrainError> {
        let declared = config.dataset_size.unwrap_or(samples);
        let rate = of_draw(config, declared)?;
        let steps = steps(config, declared, samples)?;
        let steps_per_event = steps_per_event(config, samples, steps);
        Ok(Self { declared, rate, event_rate: of_event(config, rate, samples)?, steps, steps_per_event })
    }

    /// Returns the terms of a run without noise.
    pub(super) fn terms(&self, learning_rate: LearningRate, noise_schedule: AnyNoise) -> Terms {
        let Self { rate, event_rate, steps, steps_per_event, .. } = *self;
        Terms {
            rate,
            event_rate,
            steps_per_event,
            correlated: None,
            truncation: None,
            steps,
            learning_rate,
            noise_schedule,
            multiplier: 0.0,
            sigma_grid: None,
            count_noise: None,
        }
    }

    /// The number of events.
    pub(super) fn events(&self) -> u64 {
        u64::from(self.steps.div_ceil(self.steps_per_event))
    }
}

fn of_draw(config: &TrainConfig, declared: u64) -> Result<Rate, SettingError> {
    let batch = u64::from(config.batch_size);
    Rate::of(batch, declared).map_err(|_| {
        if config.dataset_size.is_none() {
            let problem = format!("above the {declared} samples; lower it, or give `dataset_size`");
            return SettingError::new("batch_size", batch, problem);
        }
        let problem = format!("below `batch_size` {batch}; raise it, or lower the batch size");
        SettingError::new("dataset_size", declared, problem)
    })
}

fn steps(config: &TrainConfig, declared: u64, samples: u64) -> Result<u32, SettingError> {
    let per_epoch = match config.sampler {
        Sampler::Poisson | Sampler::CyclicPoisson => declared as f64 / f64::from(config.batch_size),
        Sampler::Shuffled | Sampler::MinSeparation => f64::from(epoch_steps(samples, config.batch_size)),
    };
    let steps = (config.epochs * per_epoch).ceil();
    if !(steps >= 1.0 && steps < f64::from(u32::MAX)) {
        let fix = if steps < 1.0 { "more" } else { "fewer: there may be 4,294,967,294" };
        return Err(SettingError::new("epochs", config.epochs, format!("gives {steps} steps; give {fix}")));
    }
    Ok(steps as u32)
}

fn of_event(config: &TrainConfig, rate: Rate, samples: u64) -> Result<Rate, SettingError> {
    match config.sampler {
        Sampler::Poisson => Ok(rate),
        Sampler::Shuffled | Sampler::MinSeparation => Ok(Rate::ONE),
        Sampler::CyclicPoisson => {
            let (batch, groups) = (u64::from(config.batch_size), config.groups());
            Rate::of(batch.saturating_mul(groups.into()), samples).map_err(|_| {
                let problem = format!("times {groups} groups is above the {samples} samples; lower it, or `groups`");
                SettingError::new("batch_size", batch, problem)
            })
        }
    }
}
