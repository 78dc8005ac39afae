//! The configuration of a run from its flags.

use crate::cli::Failure;
use crate::cli::args::data::TestMetricsArg;
use crate::cli::args::train::{NoiseArg, RecordingArgs, SamplerArg, TrainArgs};
use damper_accounting::Sampler;
use damper_train::{Budget, NoiseKind, RecordRequest, TestMetrics, TrainConfig};

/// Default bound on a held-out sample's loss. A probability of e^-10 for the correct class has this loss.
const LOSS_BOUND: f32 = 10.0;

/// Default limit of a recording, in bytes.
const RECORD_LIMIT: u64 = 1 << 30;

/// Batch size of the first checks, before the number of samples determines it.
const OPEN_BATCH: u32 = 256;

/// δ of the first checks, as the batch size.
const DELTA: f64 = 1e-5;

impl TrainArgs {
    /// Returns the configuration. Settings that are open have values for the first checks.
    pub(in crate::cli) fn config(&self) -> Result<TrainConfig, Failure> {
        let privacy = &self.privacy;
        let batch_size = self.training.batch_size.unwrap_or(OPEN_BATCH);
        let budget = match (privacy.epsilon, privacy.noise_multiplier, privacy.equation_6) {
            _ if privacy.not_private => Budget::NotPrivate,
            (Some(epsilon), None, None) => Budget::Epsilon(epsilon),
            (None, Some(multiplier), None) => Budget::NoiseMultiplier(multiplier),
            (None, None, Some(epsilon)) => Budget::Equation6(epsilon),
            _ => return Err(Failure::new("give one of `epsilon` and `noise_multiplier`")),
        };
        Ok(TrainConfig {
            budget,
            delta: privacy.delta.unwrap_or(DELTA),
            accountant: privacy.accountant.as_deref().copied().unwrap_or_default(),
            allow_large_delta: privacy.allow_large_delta,
            batch_size,
            epochs: self.training.epochs.unwrap_or(1.0),
            dataset_size: privacy.dataset_size,
            sampler: match privacy.sampler {
                None | Some(SamplerArg::Poisson) => Sampler::Poisson,
                Some(SamplerArg::Shuffled) => Sampler::Shuffled,
                Some(SamplerArg::CyclicPoisson) => Sampler::CyclicPoisson,
                Some(SamplerArg::MinSeparation) => Sampler::MinSeparation,
            },
            groups: privacy.groups,
            noise_correlation: privacy.noise_correlation.as_deref().copied().unwrap_or_default(),
            noise_objective: privacy.noise_objective.as_deref().copied(),
            truncate: privacy.truncate,
            method: self.method.choice(&self.optimizer.schedule, privacy.clip.unwrap_or(1.0), batch_size)?,
            optimizer: self.optimizer.choice(&self.method)?,
            noise: match privacy.noise {
                None | Some(NoiseArg::Discrete) => NoiseKind::Discrete,
                Some(NoiseArg::Continuous) => NoiseKind::Continuous,
            },
            readout: privacy.readout.as_deref().copied().unwrap_or_default(),
            grid_bits: privacy.grid_bits.unwrap_or(20),
            backend: self.machine.backend()?,
            seed: privacy.seed,
            physical_batch: self.machine.physical_batch,
            memory: self.machine.memory(),
            workers: self.machine.workers,
            cache_frozen: self.training.cache_frozen.as_deref().map(|size| size.0),
            augment: self.training.augment.as_deref().copied(),
            average: self.training.average.as_deref().copied(),
            evaluate_every: self.training.eval_every,
            stop_early: self.training.stop_early,
            test_metrics: match (self.test_metrics.test_metrics.unwrap_or_default(), self.test_metrics.test_loss_bound)
            {
                (TestMetricsArg::Private, bound) => TestMetrics::Private { loss_bound: bound.unwrap_or(LOSS_BOUND) },
                (_, Some(_)) => {
                    return Err(Failure::usage("`test_loss_bound`: is for `test_metrics` private; leave it out"));
                }
                (TestMetricsArg::Exact, None) => TestMetrics::Exact,
                (TestMetricsArg::None, None) => TestMetrics::None,
            },
            normalize_private: self.normalize.choice(),
            release_non_finite: self.non_finite.choice(),
            record: self.record(),
        })
    }

    /// Returns the requested recording.
    fn record(&self) -> Option<RecordRequest> {
        let RecordingArgs { record, record_limit } = &self.recording;
        record.clone().map(|file| RecordRequest {
            file,
            limit: record_limit.as_deref().map_or(RECORD_LIMIT, |size| size.0),
            resumed: self.resume.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use damper_train::Method;

    // Without flags, the configuration is the library's default.
    #[test]
    fn default_flags_match_library_config() {
        let line = "damper train m.onnx --data csv:d --out o --noise-multiplier 1 --batch-size 8 --epochs 2 --lr 0.5";
        let crate::cli::Command::Train(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("another command")
        };
        let usual = TrainConfig::new(Budget::NoiseMultiplier(1.0), DELTA, 8, 2.0, Method::dp_sgd(1.0, 0.5));
        assert_eq!(format!("{:?}", args.config().unwrap()), format!("{usual:?}"));
    }
}
