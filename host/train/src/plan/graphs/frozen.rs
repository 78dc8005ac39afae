//! The frozen part of a run that computes it once.

use crate::{TrainConfig, TrainError};
use damper_data::Dataset;
use damper_grad::{DeriveOptions, FrozenPart};
use damper_onnx::SettingError;
use damper_onnx::graph::Graph;

/// The frozen part of `graph` and the rest, if the run computes it once.
///
/// # Errors
///
/// Samples change from step to step, nothing is worth storing, or it is too much.
pub(crate) fn frozen(
    graph: &Graph,
    derive: &DeriveOptions,
    config: &TrainConfig,
    data: &Dataset,
) -> Result<Option<(FrozenPart, Graph)>, TrainError> {
    if config.cache_frozen.is_none() {
        return Ok(None);
    }
    let refuse = |problem: &str| Err(SettingError::new("cache_frozen", "", problem).into());
    if config.augment.is_some() {
        return refuse(
            "each step has other views of a picture, so the frozen part computes other values; leave out one of `cache_frozen` and `augment`",
        );
    }
    if config.normalize_private.is_some() {
        return refuse("its values are computed before constants are released; use `normalize`, or leave it out");
    }
    let output = derive.output.as_deref().unwrap_or_default();
    let Some((part, rest)) = FrozenPart::of(graph, output) else {
        return refuse(
            "no matrix product or convolution comes before the first trained weight, so nothing is worth storing; leave it out",
        );
    };
    if data.train.held().is_none() {
        let rows = data.train.len() + data.test.as_ref().map_or(0, |test| test.len());
        check_size(&part, rows, config)?;
    }
    Ok(Some((part, rest)))
}

/// Refuses more bytes than `cache_frozen` for the stored values of `rows` samples.
pub(crate) fn check_size(part: &FrozenPart, rows: usize, config: &TrainConfig) -> Result<(), TrainError> {
    let (each, limit) = (part.sample_bytes(), config.cache_frozen.unwrap_or(u64::MAX));
    let all = each.saturating_mul(rows as u64);
    if all <= limit {
        return Ok(());
    }
    // A declared number of samples hides the counted number.
    let of_all = match config.dataset_size {
        None => format!("all {rows} take {}MiB", all.div_ceil(1 << 20)),
        Some(_) => "all take more than this".into(),
    };
    let problem =
        format!("the frozen part's values of a sample take {each} bytes, and {of_all}; give more, or leave it out");
    Err(SettingError::new("cache_frozen", "", problem).into())
}
