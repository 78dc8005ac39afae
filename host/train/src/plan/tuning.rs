//! Sampling rates of runs that try settings on a part of the samples.

use crate::{Run, TrainConfig, TrainError};
use damper_accounting::Sampler;
use damper_core::accounting::Rate;

/// Sets the rates of `run` to those of draws from `left` of its training samples. The expected batch, the noise and the
/// number of steps do not change. Such a run makes no privacy claim.
///
/// # Errors
///
/// There are fewer samples than the expected batch.
pub fn set_tuning_rate(run: &mut Run, left: u64) -> Result<(), TrainError> {
    let (config, samples) = (&run.config, run.data.train.len() as u64);
    let rate = tuning_rate(config, samples, left)?;
    let event_rate = match config.sampler {
        Sampler::Poisson => rate,
        Sampler::Shuffled | Sampler::MinSeparation => Rate::ONE,
        Sampler::CyclicPoisson => {
            let of_groups = u64::from(config.batch_size).saturating_mul(config.groups().into());
            Rate::of(of_groups, left).map_err(|_| TrainError::Run(TOO_FEW.into()))?
        }
    };
    (run.price.terms.rate, run.price.terms.event_rate) = (rate, event_rate);
    Ok(())
}

const TOO_FEW: &str = "the training split has too few samples to tune on: give one value for each key";

/// Returns the rate of draws from `left` of `samples` samples.
pub(crate) fn tuning_rate(config: &TrainConfig, samples: u64, left: u64) -> Result<Rate, TrainError> {
    let declared = u128::from(config.dataset_size.unwrap_or(samples));
    let left = (declared * u128::from(left) / u128::from(samples.max(1))) as u64;
    Rate::of(u64::from(config.batch_size), left).map_err(|_| TrainError::Run(TOO_FEW.into()))
}
