//! Warnings about correlated noise, from public figures alone.

use crate::plan::correlation::loss_share;
use crate::{FilterChoice, TrainConfig, TrainError};
use damper_accounting::CorrelatedRun;

/// The share of the privacy cost above which rounding causes a warning.
const LARGE_ROUNDING: f64 = 0.01;

/// Returns all warnings for the noise of `run`.
pub(in crate::plan) fn all(
    config: &TrainConfig,
    run: &CorrelatedRun,
) -> Result<impl Iterator<Item = String>, TrainError> {
    Ok([of_rounding(config, run)?, of_loss(config, run), of_filter(config)].into_iter().flatten())
}

fn of_rounding(config: &TrainConfig, run: &CorrelatedRun) -> Result<Option<String>, TrainError> {
    let share = run.rounding_share()?;
    Ok((share > LARGE_ROUNDING).then(|| {
        format!(
            "`noise_correlation` {}: rounding on the grid takes {:.1} % of the noise; raise `grid_bits` {}",
            config.noise_correlation,
            100.0 * share,
            config.grid_bits
        )
    }))
}

fn of_loss(config: &TrainConfig, run: &CorrelatedRun) -> Option<String> {
    let loss = loss_share(run);
    (loss >= 1.0).then(|| {
        format!(
            "`noise_correlation` {}: the sum over all steps has {loss:.2} times the noise of independent noise; use none",
            config.noise_correlation
        )
    })
}

fn of_filter(config: &TrainConfig) -> Option<String> {
    matches!(config.method.filter, FilterChoice::Disk { .. }).then(|| {
        format!(
            "`noise_correlation` {}: the filter of `method` disk is derived for white noise, and is not tuned for this",
            config.noise_correlation
        )
    })
}
