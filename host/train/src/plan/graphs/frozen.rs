//! The frozen part of a run, if the run computes it once.

use crate::{Run, TestMetrics, TrainConfig, TrainError};
use damper_data::Split;
use damper_grad::{DeriveOptions, FrozenPart};
use damper_onnx::SettingError;
use damper_onnx::graph::Graph;

/// Splits `graph` into its frozen part and the rest, if the run computes the frozen part once. If `is_after_opaque`,
/// the graph follows a part that has operators without a rule and is computed once in any case.
///
/// # Errors
///
/// Samples change between steps, or no value is worth storing.
pub(crate) fn frozen(
    graph: &Graph,
    derive: &DeriveOptions,
    config: &TrainConfig,
    is_after_opaque: bool,
) -> Result<Option<(FrozenPart, Graph)>, TrainError> {
    if is_after_opaque {
        check_opaque(config)?;
    }
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
        if is_after_opaque {
            return Ok(None);
        }
        return refuse(
            "before the first trained weight no matrix product or convolution leads to float32 values with an axis of the samples, so nothing can be \
             stored; leave it out",
        );
    };
    Ok(Some((part, rest)))
}

/// Returns an error if the values of a frozen part with operators without a rule change during the run.
fn check_opaque(config: &TrainConfig) -> Result<(), SettingError> {
    let why = "the frozen part has operators without a rule, so its values are computed once";
    if config.augment.is_some() {
        return Err(SettingError::new("augment", "", format!("{why}, and each step has other views; leave it out")));
    }
    if config.normalize_private.is_some() {
        let problem = format!("{why}, before constants are released; use `normalize`, or leave it out");
        return Err(SettingError::new("normalize_private", "", problem));
    }
    Ok(())
}

/// Returns an error if the stored values of all samples in the run take more bytes than `cache_frozen`.
pub(crate) fn check_size(part: &FrozenPart, run: &Run) -> Result<(), TrainError> {
    let (each, limit) = (part.sample_bytes(), run.config.cache_frozen.unwrap_or(u64::MAX));
    let rows: usize = splits(run).map(|split| split.rows_held().len()).sum();
    let all = each.saturating_mul(rows as u64);
    if all <= limit {
        return Ok(());
    }
    // The message leaves out the counted number of samples if a number is declared.
    let of_all = match run.config.dataset_size {
        None => format!("those of all {rows} samples take {}MiB", all.div_ceil(1 << 20)),
        Some(_) => "those of all samples take more than SIZE".into(),
    };
    let problem = format!("the values of one sample take {each} bytes, and {of_all}; give more, or leave it out");
    Err(SettingError::new("cache_frozen", "", problem).into())
}

/// Returns the splits that the network processes: training samples, and held-out samples if they are evaluated.
pub(crate) fn splits(run: &Run) -> impl Iterator<Item = &Split> {
    let is_evaluated = run.config.test_metrics != TestMetrics::None;
    std::iter::once(&run.data.train).chain(run.data.test.as_ref().filter(|_| is_evaluated))
}
