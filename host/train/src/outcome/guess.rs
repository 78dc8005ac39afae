//! A warning about a network that predicts no better than a guess, from released figures alone.

use crate::outcome::r_squared::r_squared;
use crate::{Outcome, Run, TestMetrics};
use damper_grad::{LabelWeights, Loss};

/// Returns a warning if the last held-out loss is not below that of a guess. A guess gives each class the same
/// probability, or each label the mean of the labels.
///
/// The loss is released, so this adds nothing to what a reader has. `None` for losses without such a figure, and for
/// private metrics, which have noise.
#[must_use]
pub fn guess_warning(run: &Run, outcome: &Outcome) -> Option<String> {
    let last = outcome.evaluations.last()?;
    let derive = &run.model.derive;
    if run.config.test_metrics != TestMetrics::Exact || derive.label_weights != LabelWeights::default() {
        return None;
    }
    let mut is_sure = false;
    let is_guess = match derive.loss {
        Loss::SoftmaxCrossEntropy => {
            let found = outcome.class_metrics.as_ref()?;
            let most = found.classes.iter().map(|class| class.labels).max()? as f64 / found.labels as f64;
            is_sure = last.accuracy? > most;
            last.loss >= (found.classes.len() as f64).ln()
        }
        Loss::Mse => r_squared(run, last.loss)? <= 0.0,
        _ => false,
    };
    let remedy = if is_sure {
        "but its accuracy is above that of the most frequent class: its probabilities are too sure; a larger `clip` makes them less so"
    } else {
        "so nothing was learned: scale the features by public constants with `normalize`, or try another `lr`"
    };
    is_guess.then(|| format!("the held-out loss {:.4} is not below that of a guess, {remedy}", last.loss))
}
