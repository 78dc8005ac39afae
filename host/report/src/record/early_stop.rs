//! Early stop of a run whose evaluations no longer improve: the steps taken, and the steps charged.

use damper_train::{Evaluation, Outcome, Run, TestMetrics};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Model of the best evaluation, for a run that ended early.
pub const BEST_MODEL: &str = "model-best.onnx";

/// An early stop.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EarlyStop {
    /// Number of steps taken. The released model is that of these steps.
    pub steps_taken: u32,
    /// Number of steps planned and charged. The claimed ε covers them all, because the end depends on released values.
    pub steps_charged: u32,
    /// ε of a plan with only the steps taken. It is not a claim of this run.
    pub epsilon_of_taken: f64,
    /// Step of the best evaluation.
    pub best_step: u32,
    /// Accuracy of the best evaluation, if the loss has classes.
    pub best_accuracy: Option<f64>,
    /// Mean loss of the best evaluation.
    pub best_loss: f64,
    /// File with the parameters of that evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_model: Option<Cow<'static, str>>,
    /// SHA-256 of its parameters, as the report's `params_digest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_params_digest: Option<String>,
    /// States if ε covers the figures that ended the run.
    pub covered: Cow<'static, str>,
}

impl EarlyStop {
    /// Returns the early stop of an outcome with this digest of its best parameters, if the run ended early.
    pub(super) fn new(run: &Run, outcome: &Outcome, best_params_digest: Option<String>) -> Option<Self> {
        let taken = outcome.ended_early?;
        let last = outcome.evaluations.last()?;
        let best = Evaluation::best(&outcome.evaluations)?;
        let covered = match run.config.test_metrics {
            TestMetrics::Private { .. } => {
                "covered by epsilon: the metrics that ended the run have noise, and are charged"
            }
            TestMetrics::Exact | TestMetrics::None => {
                "not covered by epsilon: exact figures of the held-out samples ended the run, so the number of steps tells of those samples"
            }
        };
        Some(Self {
            steps_taken: taken,
            steps_charged: run.price.terms.steps,
            epsilon_of_taken: last.epsilon,
            best_step: best.step,
            best_accuracy: best.accuracy,
            best_loss: best.loss,
            best_model: best_params_digest.as_ref().map(|_| BEST_MODEL.into()),
            best_params_digest,
            covered: covered.into(),
        })
    }

    /// Returns two lines of the summary.
    pub(crate) fn lines(&self) -> String {
        let figure = self.best_accuracy.map_or_else(
            || format!("loss {:.6}", self.best_loss),
            |accuracy| format!("{:.2} %, loss {:.4}", 100.0 * accuracy, self.best_loss),
        );
        format!(
            "stopped   early, after step {} of {}: evaluations had stopped to improve; epsilon is that of all {} planned steps, of those \
             taken alone it would be {} (no claim)\nbest      {figure} after step {}{}; model.onnx is of step {}; {}",
            self.steps_taken,
            self.steps_charged,
            self.steps_charged,
            damper_accounting::upward(self.epsilon_of_taken),
            self.best_step,
            self.best_model.as_ref().map_or(String::new(), |file| format!(" ({file})")),
            self.steps_taken,
            self.covered
        )
    }
}
