//! R² of a regression on the held-out split.

use crate::{Run, TestMetrics};
use damper_data::{Labels, Split};
use damper_grad::Loss;

/// Returns 1 − `loss` / the variance of the held-out labels, for a mean squared error `loss` in the labels' unit.
///
/// It is an exact function of these rows, like the loss. `None` for other losses, several labels per sample, private
/// metrics, or labels that are all equal.
#[must_use]
pub fn r_squared(run: &Run, loss: f64) -> Option<f64> {
    let split = run.data.test.as_ref().filter(|_| run.config.test_metrics == TestMetrics::Exact)?;
    r_squared_of(run, split, loss)
}

/// As [`r_squared`], for the labels of `split`.
pub(crate) fn r_squared_of(run: &Run, split: &Split, loss: f64) -> Option<f64> {
    let Labels::Values { shape, values } = split.labels() else { return None };
    if run.model.derive.loss != Loss::Mse || shape.iter().product::<usize>() != 1 {
        return None;
    }
    let kept = values.iter().enumerate().filter(|(row, _)| !split.is_null(*row)).map(|(_, value)| f64::from(*value));
    let kept: Vec<f64> = kept.collect();
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let variance = kept.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / kept.len() as f64;
    let std = split.label_scale().map_or(1.0, |(_, std)| std);
    let r_squared = 1.0 - loss / (variance * std * std);
    r_squared.is_finite().then_some(r_squared)
}
