//! Checks of δ against the number of samples.

use crate::{TrainConfig, TrainError};
use damper_accounting::{DeltaVerdict, judge_delta};
use damper_onnx::SettingError;

/// Checks δ against the `declared` number of samples of a private run. The counted number, `samples`, may be larger. A
/// warning about it goes to `warnings_of_data`.
pub(super) fn check(
    config: &TrainConfig,
    declared: u64,
    samples: u64,
    warnings_of_data: &mut Vec<String>,
) -> Result<Option<String>, TrainError> {
    let warning = judge_delta(config.delta, declared, config.allow_large_delta)?.warning(config.delta, declared);
    if declared < samples {
        check_delta_of_counted(config, declared, samples, warnings_of_data)?;
    }
    Ok(warning)
}

/// Checks δ against the counted number of samples, if fewer are declared. The messages do not contain that number.
fn check_delta_of_counted(
    config: &TrainConfig,
    declared: u64,
    samples: u64,
    warnings: &mut Vec<String>,
) -> Result<(), TrainError> {
    let refuse = |rest: &str| {
        let problem = format!("below the number of samples, for which `delta` {} {rest}", config.delta);
        SettingError::new("dataset_size", declared, problem)
    };
    match judge_delta(config.delta, samples, config.allow_large_delta) {
        Err(_) => Err(refuse("is not below 1/N; lower `delta`, or pass `allow_large_delta`").into()),
        Ok(DeltaVerdict::Large { .. }) => {
            warnings.push(refuse("is above N^-1.1; lower `delta`").to_string());
            Ok(())
        }
        Ok(DeltaVerdict::Fine) => Ok(()),
    }
}
