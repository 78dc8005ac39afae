//! The report of a run that is not private, `report.json`. It has no ε. Its first keys give the reason.

use super::fields::{Execution, HeldOutRecord, TestFigures, Training, Versions};
use super::of_run::{held_out, training};
use super::origin::RunOrigin;
use damper_accounting::Sampler;
use damper_train::{NOT_PRIVATE, Outcome, Run};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Reason why no guarantee holds.
pub(crate) const REASON: &str = "There is no guarantee: the run is not private. No gradient was clipped and no noise was added, so no epsilon holds, and \
                      whoever has the model or its figures may learn any training sample.";

/// Record of a run without privacy, `report.json`. It has those keys of a private run's record that apply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotPrivateReport {
    /// Always `not private`.
    pub run: Cow<'static, str>,
    /// Always false.
    pub guaranteed: bool,
    /// Always `None`: no ε holds.
    pub epsilon: Option<f64>,
    /// Always `None`.
    pub delta: Option<f64>,
    /// Reason.
    pub reason: Cow<'static, str>,
    /// Figures on the held-out samples.
    #[serde(flatten)]
    pub test: TestFigures,
    /// Number of steps taken.
    pub steps: u32,
    /// Number of planned steps, more than taken if the run ended early.
    pub planned_steps: u32,
    /// Sampling rate.
    pub sampling_rate: f64,
    /// `poisson` or `shuffled`.
    pub sampler: Sampler,
    /// Number of training samples, or the declared number.
    pub samples: u64,
    /// Constant divisor of the sum of gradients.
    pub expected_batch: u32,
    /// Seed of the draws, if it was given.
    pub seed: Option<u64>,
    /// Time, backend and the digest of the parameters.
    #[serde(flatten)]
    pub execution: Execution,
    /// Names of the model and the data, and the day. `None` if the command did not start the run, or in a record of an
    /// earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    /// Training settings.
    pub training: Training,
    /// Samples of `test_accuracy` and `test_loss`.
    pub held_out: Option<HeldOutRecord>,
    /// Versions of the program and the libraries.
    pub versions: Versions,
    /// Settings as given, an argument each. Empty if the command did not start the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Warnings to the user.
    pub warnings: Vec<String>,
}

impl NotPrivateReport {
    /// Returns the record of `run`, which is not private and produced `outcome`.
    #[must_use]
    pub fn new(run: &Run, outcome: &Outcome) -> Self {
        let early = outcome.ended_early.map(|taken| {
            format!(
                "the run ended early, after step {taken} of {}, for its evaluations had stopped to improve; model-best.onnx has the parameters of the best",
                run.price.terms.steps
            )
        });
        Self {
            run: NOT_PRIVATE.into(),
            guaranteed: false,
            epsilon: None,
            delta: None,
            reason: REASON.into(),
            test: TestFigures::new(run, outcome),
            steps: outcome.steps,
            planned_steps: run.price.terms.steps,
            sampling_rate: run.price.terms.rate.as_f64(),
            sampler: run.config.sampler,
            samples: run.config.dataset_size.unwrap_or(run.data.train.len() as u64),
            expected_batch: run.config.batch_size,
            seed: run.config.seed,
            execution: Execution::new(run, outcome),
            origin: None,
            training: Training { method: NOT_PRIVATE.into(), ..training(run, outcome) },
            held_out: held_out(run, outcome),
            versions: Versions::new(outcome, "not tested: nothing rests on it"),
            command: vec![],
            warnings: run.warnings.public.iter().cloned().chain(early).collect(),
        }
    }

    /// Returns the content of `report.json`, with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        damper_train::files::json(self).expect("a report has string keys and finite numbers")
    }
}
