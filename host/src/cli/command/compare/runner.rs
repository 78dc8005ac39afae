//! Runs of a comparison in this process.

use super::watch::Watch;
use crate::cli::session::output::Failure;
use damper_report::TrainReport;
use damper_report::compare::{ComparisonFigures, ComparisonPlan, SearchPlan};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

/// Trainer of a comparison, in this process.
pub(super) struct Runner<'a> {
    pub(super) out: &'a Path,
    /// Command line, for threads other than that of the command.
    pub(super) command: Vec<String>,
    /// Kind of the budgets.
    pub(super) budget: &'static str,
    /// Budget of the data set.
    pub(super) budget_file: Option<&'a Path>,
    pub(super) watch: Watch,
    /// Number of workers of a run without that setting.
    pub(super) workers: Option<NonZeroUsize>,
    /// Private search for settings, if the file asks for one.
    pub(super) search: Option<SearchPlan>,
    pub(super) settings: SettingsOf<'a>,
    /// Locked while a run's folder is created.
    pub(super) folders: Mutex<()>,
}

/// Settings of a method's candidates, as text.
pub(super) struct SettingsOf<'a>(pub(super) &'a ComparisonPlan);

impl SettingsOf<'_> {
    pub(super) fn of(&self, label: &str, number: usize) -> Vec<String> {
        self.0.settings_of(label, number)
    }
}

/// Returns the figures in the report of a run.
pub(super) fn figures(report: TrainReport) -> Result<ComparisonFigures, Failure> {
    Ok(ComparisonFigures {
        test_accuracy: report.test.accuracy,
        test_loss: report.test.loss.filter(|loss| loss.is_finite()),
        epsilon: Some(report.epsilon),
        delta: report.delta,
        noise_multiplier: report.noise_multiplier,
        steps: report.steps,
        seconds: report.execution.seconds,
        backend: report.execution.backend.into(),
        params_digest: report.execution.params_digest,
        parameters: report.training.parameters,
        training: serde_json::to_value(&report.training)?,
        search: None,
    })
}
