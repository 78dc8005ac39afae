//! The report of a run that is not private, `report.json`. It has no ε. Its first keys give the reason.

use super::fields::{Execution, HeldOutRecord, TestFigures, Training, Versions};
use super::of_run::{held_out, training};
use damper_accounting::Sampler;
use damper_train::{NOT_PRIVATE, Outcome, Run};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why nothing holds.
pub(crate) const REASON: &str = "There is no guarantee: the run is not private. No gradient was clipped and no noise was added, so no epsilon holds, and \
                      whoever has the model or its figures may learn any training sample.";

/// The record of a run without privacy, `report.json`. It has the keys of a private run's, where they mean something.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotPrivateReport {
    /// `not private`.
    pub run: Cow<'static, str>,
    /// False.
    pub guaranteed: bool,
    /// None: no ε holds.
    pub epsilon: Option<f64>,
    /// None.
    pub delta: Option<f64>,
    /// Why.
    pub reason: Cow<'static, str>,
    /// Figures on the held-out samples.
    #[serde(flatten)]
    pub test: TestFigures,
    /// Steps taken.
    pub steps: u32,
    /// Steps planned: more than were taken if the run ended early.
    pub planned_steps: u32,
    /// The rate of the draws.
    pub sampling_rate: f64,
    /// `poisson` or `shuffled`.
    pub sampler: Sampler,
    /// Number of training samples, or the number declared.
    pub samples: u64,
    /// The constant that the sum of gradients is divided by.
    pub expected_batch: u32,
    /// The seed of the draws, if it was given.
    pub seed: Option<u64>,
    /// Time, backend and the digest of the parameters.
    #[serde(flatten)]
    pub execution: Execution,
    /// How it was trained.
    pub training: Training,
    /// The samples that `test_accuracy` and `test_loss` are of.
    pub held_out: Option<HeldOutRecord>,
    /// Versions of the program and the libraries.
    pub versions: Versions,
    /// The settings as they were given, one argument each; empty if the command did not run it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The warnings given.
    pub warnings: Vec<String>,
}

impl NotPrivateReport {
    /// The record of `run`, which is not private and gave `outcome`.
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
            training: Training { method: NOT_PRIVATE.into(), ..training(run, outcome) },
            held_out: held_out(run, outcome),
            versions: Versions::new(outcome, "not tested: nothing rests on it"),
            command: vec![],
            warnings: run.warnings.public.iter().cloned().chain(early).collect(),
        }
    }

    /// As `report.json` holds it, with a last newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        damper_train::files::json(self).expect("a report has string keys and finite numbers")
    }
}
