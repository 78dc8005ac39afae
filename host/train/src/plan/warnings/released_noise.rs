//! Warnings about the noise of releases before the steps, from public figures alone.

use crate::{ReleaseNonFinite, TrainConfig, TrainError};
use damper_data::Split;

/// Noise above this share causes a warning. For a mean, the share is of half a column's range. For a count, it is of
/// the rows.
const LARGE_NOISE: f64 = 0.1;

/// Returns all warnings for a run on `train`.
pub(in crate::plan) fn all(config: &TrainConfig, train: &Split) -> Result<impl Iterator<Item = String>, TrainError> {
    let rows = config.dataset_size.unwrap_or(train.len() as u64);
    Ok([of_means(config, train, rows)?, of_count(config, rows)].into_iter().flatten())
}

fn of_means(config: &TrainConfig, train: &Split, rows: u64) -> Result<Option<String>, TrainError> {
    let Some(normalize) = &config.normalize_private else { return Ok(None) };
    let (_, columns) = normalize.input(train)?;
    let noise = normalize.noise(columns, rows);
    Ok((noise > LARGE_NOISE).then(|| {
        format!(
            "`normalize_private`: the noise on a mean is {noise:.2} of half its column's range; use fewer columns or more rows, lower \
             `normalize_noise_multiplier`, or use public constants (`normalize`)"
        )
    }))
}

fn of_count(config: &TrainConfig, rows: u64) -> Option<String> {
    let ReleaseNonFinite { noise_multiplier } = config.release_non_finite?;
    let noise = noise_multiplier?;
    (noise > LARGE_NOISE * rows as f64).then(|| {
        format!(
            "`release_non_finite`: the noise is {noise:.0} of {rows} samples, so the number says little; lower \
             `non_finite_noise_multiplier`, or raise `epsilon`"
        )
    })
}
