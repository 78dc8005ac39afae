//! The reports of a run that is not private: `report.json` and `statement.json`. They have no ε, and say why in their first keys.

use super::evidence::{EVENTS, EvidenceError, RECORD, Released, bytes, is_there, parsed, released};
use super::of_run::{held_out, params_digest, perplexity, training};
use super::{HeldOut, Training, Versions, is_finished, planned};
use damper_accounting::Sampler;
use damper_budget::PLAN;
use damper_train::{Checkpoint, Evaluation, NOT_PRIVATE, Outcome, Run};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// Why nothing holds.
const REASON: &str = "There is no guarantee: the run is not private. No gradient was clipped and no noise was added, so no epsilon holds, and \
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
    /// Share of right answers on the held-out samples; none without such samples, or if the loss has no classes.
    pub test_accuracy: Option<f64>,
    /// Mean loss on the held-out samples.
    pub test_loss: Option<f64>,
    /// `e` to that power, if a sample has several labels.
    pub test_perplexity: Option<f64>,
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
    /// Whole seconds of training, evaluation included, rounded up.
    pub seconds: f64,
    /// `tract`, `ort` or `cuda`: what really ran.
    pub backend: Cow<'static, str>,
    /// SHA-256 of the trained parameters: f32, little-endian, in the gradient graph's order.
    pub params_digest: String,
    /// How it was trained.
    pub training: Training,
    /// The samples that `test_accuracy` and `test_loss` are of.
    pub held_out: Option<HeldOut>,
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
        let last: Option<&Evaluation> = outcome.evaluations.last();
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
            test_accuracy: last.and_then(|at| at.accuracy),
            test_loss: last.map(|at| at.loss),
            test_perplexity: perplexity(run, outcome),
            steps: outcome.steps,
            planned_steps: run.price.terms.steps,
            sampling_rate: run.price.terms.rate.as_f64(),
            sampler: run.config.sampler,
            samples: run.config.dataset_size.unwrap_or(run.data.train.len() as u64),
            expected_batch: run.config.batch_size,
            seed: run.config.seed,
            seconds: outcome.seconds.ceil(),
            backend: outcome.backend.into(),
            params_digest: params_digest(run, &outcome.params),
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

impl fmt::Display for NotPrivateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "NOT PRIVATE: no gradient was clipped and no noise was added; no epsilon holds")?;
        super::text::held_out(f, self.held_out.as_ref(), (self.test_accuracy, self.test_loss, self.test_perplexity))?;
        super::by_class::line(f, self.held_out.as_ref())?;
        let (steps, batch, samples) = (self.steps, self.expected_batch, self.samples);
        match self.sampler {
            Sampler::Poisson | Sampler::CyclicPoisson => {
                writeln!(f, "draws     {steps} Poisson draws, {batch} of {samples} samples expected in each")?;
            }
            Sampler::Shuffled => writeln!(f, "batches   {steps} of {batch} of {samples} samples, shuffled")?,
            Sampler::MinSeparation => writeln!(f, "batches   {steps} of {batch} of {samples} samples, in one order")?,
        }
        super::text::write_time(f, self.seconds, &self.versions, &self.backend, self.training.workers)
    }
}

/// The statement on a run without privacy, `statement.json`: that nothing is claimed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NotPrivate {
    /// None.
    pub epsilon: Option<f64>,
    /// None.
    pub delta: Option<f64>,
    /// Says that there is no guarantee, and why.
    pub guarantee: &'static str,
    /// False.
    pub guaranteed: bool,
    /// `not private`.
    pub run: &'static str,
    /// True if the run has finished.
    pub finished: bool,
    /// Steps taken; none if no state of an unfinished run says it.
    pub steps: Option<u32>,
    /// The released files.
    pub files: Vec<Released>,
    /// The damper that wrote this.
    pub damper: &'static str,
    /// The run's own record, once it has finished.
    pub record: Option<NotPrivateReport>,
}

impl NotPrivate {
    /// Reads the records in `folder`. Returns `None` if none of them says that the run is not private.
    ///
    /// # Errors
    ///
    /// One says so, and `report.json` of the finished run is missing or damaged.
    pub fn read(folder: &Path) -> Result<Option<Self>, EvidenceError> {
        if !is_not_private(folder)? {
            return Ok(None);
        }
        let finished = is_finished(folder)?;
        let record: Option<NotPrivateReport> =
            finished.then(|| parsed(&folder.join("report.json"), RECORD)).transpose()?;
        let taken = || Checkpoint::steps(&folder.join("checkpoint")).ok();
        Ok(Some(Self {
            epsilon: None,
            delta: None,
            guarantee: REASON,
            guaranteed: false,
            run: NOT_PRIVATE,
            finished,
            steps: record.as_ref().map_or_else(taken, |record| Some(record.steps)),
            files: released(folder)?,
            damper: env!("CARGO_PKG_VERSION"),
            record,
        }))
    }

    /// As `statement.json` holds it, with a last newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        damper_train::files::json(self).expect("a statement has string keys and finite numbers")
    }
}

/// Returns true if a record of the run in `folder` says that it is not private: `report.json`, `events.json` or the plan. One is enough.
///
/// # Errors
///
/// A file cannot be read.
pub fn is_not_private(folder: &Path) -> Result<bool, EvidenceError> {
    /// Of a record the one key.
    #[derive(Deserialize)]
    struct Kind {
        run: Option<String>,
    }
    // A path that is no folder is for its reader to refuse.
    if !folder.is_dir() {
        return Ok(false);
    }
    for (name, limit) in [("report.json", RECORD), ("events.json", EVENTS)] {
        let path = folder.join(name);
        // One that is damaged is for its reader to refuse.
        if is_there(&path)?
            && let Ok(Kind { run: Some(run) }) = serde_json::from_slice(&bytes(&path, limit)?)
            && run == NOT_PRIVATE
        {
            return Ok(true);
        }
    }
    let plan = folder.join("checkpoint").join(PLAN);
    Ok(is_there(&plan)? && planned(folder).is_ok_and(|plan| plan.is_some_and(|plan| plan.is_not_private())))
}
