//! `report.html` of a run that is not private: a page that cannot be mistaken for a privacy report.

use super::headline;
use super::render::rendered;
use super::rows::{Rows, grouped, lora, optimizer};
use crate::record::NotPrivateReport;
use crate::statement::NotPrivateStatement;
use askama::Template;
use damper_accounting::Sampler;

#[derive(Template)]
#[template(path = "not_private.html")]
struct Page<'a> {
    statement: &'a NotPrivateStatement,
}

impl NotPrivateStatement {
    /// Returns the page.
    #[must_use]
    pub fn html(&self) -> String {
        rendered(&Page { statement: self })
    }
}

impl Page<'_> {
    fn steps(&self) -> String {
        self.statement.steps.map_or("an unknown number of".into(), |steps| grouped(u64::from(steps)))
    }
}

/// Returns the facts of the first screen.
pub(super) fn facts(record: &NotPrivateReport) -> Rows {
    let training = format!("Not private, {} steps", grouped(u64::from(record.steps)));
    headline::facts(record.origin.as_ref(), record.training.parameters, record.samples, training)
}

/// Returns the settings of the training.
pub(super) fn rows(record: &NotPrivateReport) -> Rows {
    let training = &record.training;
    vec![
        ("clipping", "none".into()),
        ("noise", "none".into()),
        ("optimizer", optimizer(&training.optimizer)),
        ("learning rate", training.lr.to_string()),
        ("low-rank adapters", training.lora.as_ref().map_or(String::new(), lora)),
        ("loss", [&*training.loss, training.reduction.as_deref().unwrap_or_default()].join(" ")),
        (
            "batches",
            match record.sampler {
                Sampler::Poisson | Sampler::CyclicPoisson => {
                    format!("Poisson, rate {}; {} expected", record.sampling_rate, record.expected_batch)
                }
                Sampler::Shuffled => format!("shuffled, {}", record.expected_batch),
                Sampler::MinSeparation => format!("in one order, {}", record.expected_batch),
            },
        ),
        ("samples", grouped(record.samples)),
        (
            "steps",
            format!("{} of {} planned", grouped(u64::from(record.steps)), grouped(u64::from(record.planned_steps))),
        ),
        ("trained parameters", grouped(training.parameters as u64)),
        ("backend", record.versions.of_backend(&record.execution.backend)),
        ("parameters, SHA-256", record.execution.params_digest.clone()),
    ]
}
