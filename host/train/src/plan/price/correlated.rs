//! The privacy cost of steps with correlated noise.

use super::rates::Rates;
use crate::plan::correlation;
use crate::plan::warnings::correlated as warnings_of;
use crate::{Terms, TrainConfig, TrainError};
use damper_accounting::Plan;
use damper_core::noise::NoiseWord;
use damper_core::private::Mechanism;
use damper_core::schedule::LearningRate;

/// Returns terms and plan of a run with this many parameters.
pub(super) fn priced(
    config: &TrainConfig,
    rates: &Rates,
    samples: u64,
    parameters: usize,
    learning_rate: LearningRate,
    warnings: &mut Vec<String>,
) -> Result<(Terms, Plan), TrainError> {
    let (correlated, plan) = correlation::priced(config, rates.steps, samples, parameters, rates.event_rate)?;
    warnings.extend(warnings_of::all(config, &correlated)?);
    let terms = Terms {
        correlated: Some(correlated),
        multiplier: plan.smallest_multiplier(),
        sigma_grid: Some(correlated.sigma),
        ..rates.terms(learning_rate, config.method.noise_schedule.build(1.0)?)
    };
    correlated.mechanism::<[NoiseWord; 0]>()?.check_clip(config.method.threshold.clip())?;
    Ok((terms, plan))
}
