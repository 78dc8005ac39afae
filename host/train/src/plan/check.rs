//! Checks of settings that no later check would name.

use crate::config::normalize_private::NormalizePrivate;
use crate::engine::not_private;
use crate::plan::correlation;
use crate::{Budget, NoiseChoice, TestMetrics, TrainConfig, TrainError};
use damper_accounting::Sampler;
use damper_data::TestSource;
use damper_grad::Readout;
use damper_onnx::SettingError;
use std::fmt::Display;

/// Returns an error for settings that do not fit a run with held-out rows from `test`, with the reason.
pub(super) fn check_settings(test: Option<&TestSource>, config: &TrainConfig) -> Result<(), TrainError> {
    let refuse = |setting, value: &dyn Display, problem| Err(SettingError::new(setting, value, problem).into());
    let positive = |setting, value: f64| {
        if value.is_finite() && value > 0.0 {
            Ok(())
        } else {
            refuse(setting, &value, "must be a finite number above 0")
        }
    };
    positive("epochs", config.epochs)?;
    let learning_rate = &config.method.learning_rate;
    positive("lr", learning_rate.lr)?;
    if !(learning_rate.warmup.is_finite() && learning_rate.warmup >= 0.0) {
        return refuse("warmup", &learning_rate.warmup, "must be finite and not negative");
    }
    positive("clip", f64::from(config.method.threshold.clip()))?;
    if let TestMetrics::Private { loss_bound } = config.test_metrics {
        positive("loss_bound", f64::from(loss_bound))?;
    }
    if let Some(every) = config.evaluate_every {
        positive("evaluate_every", every)?;
    } else if let Some(patience) = config.stop_early {
        return refuse("stop_early", &patience, "needs evaluations before the end; add `evaluate_every`");
    }
    if let (Some(patience), TestMetrics::None) = (config.stop_early, config.test_metrics) {
        return refuse(
            "stop_early",
            &patience,
            "needs figures of the held-out samples; use `test_metrics` exact or private",
        );
    }
    let has_batches = matches!(config.sampler, Sampler::Shuffled | Sampler::MinSeparation);
    if config.dataset_size.is_some() && (has_batches || config.truncate.is_some()) {
        let problem = "batches of a fixed size and cut draws are priced for a public number of samples; leave it out, or use `sampler` \
                       poisson without `truncate`";
        return refuse("dataset_size", &"", problem);
    }
    if config.dataset_size.is_some() && matches!(test, Some(TestSource::Fraction(_))) {
        let problem = "the number of rows that `test` FRACTION holds out gives the number of samples away; use `test` KIND:PATH, \
                       or leave `dataset_size` out";
        return refuse("dataset_size", &"", problem);
    }
    if has_batches && config.truncate.is_some() {
        return refuse("truncate", &"", "the batches have a fixed size; leave it out");
    }
    if matches!(config.budget, Budget::Equation6(_)) && config.method.noise_schedule == NoiseChoice::Clt {
        let problem =
            "`noise_schedule` clt is shaped by its own multiplier; use `epsilon`, or `noise_schedule` matched:0.5";
        return refuse("equation_6", &"", problem);
    }
    if let (Some(augment), Readout::ClippedSum) = (&config.augment, config.readout) {
        return refuse("augment", augment, "a sample's views are mixed before the clip; use `readout` per-sample");
    }
    if config.batch_size == 0 {
        return refuse("batch_size", &0, "must be at least 1");
    }
    config.normalize_private.iter().try_for_each(NormalizePrivate::check)?;
    correlation::check(config)?;
    if config.is_not_private() { not_private::check(config) } else { Ok(()) }
}
