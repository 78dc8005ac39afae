//! The lines of a budget file. Each is a JSON object, `{"line": …, "sha256": …}`. The digest covers the line and the
//! previous digest, so a changed or missing line is detected.

use crate::plan::RunPlan;
use damper_accounting::Recorded;
use damper_files::sealed;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetHeader {
    /// Version of the file format.
    pub version: u32,
    /// The user's name for the data set.
    pub dataset: String,
    /// The limit on ε, if there is one.
    pub epsilon: Option<f64>,
    /// The δ of the total.
    pub delta: f64,
}

/// The current version of the file format.
pub(super) const VERSION: u32 = 1;

impl BudgetHeader {
    /// Creates the header of a budget for `dataset`.
    #[must_use]
    pub fn new(dataset: String, epsilon: Option<f64>, delta: f64) -> Self {
        Self { version: VERSION, dataset, epsilon, delta }
    }
}

/// A line of the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum BudgetLine {
    /// Name, limit and δ.
    Header(BudgetHeader),
    /// The charge of a run's whole plan.
    Charge {
        /// The number of the charge, from 1.
        number: u64,
        /// Seconds since 1970.
        unix_seconds: u64,
        /// The subcommand.
        command: String,
        /// The output folder of the run.
        out: String,
        /// The plan of the run.
        plan: RunPlan,
    },
    /// The charged steps of a run that ended before it charged its whole plan.
    Paid {
        /// The number of its charge.
        number: u64,
        /// Number of charged steps, an upper bound on the steps that released something.
        steps: u32,
        /// The events of these steps.
        events: Recorded,
    },
    /// A run resumed after it had ended before charging its whole plan. The whole plan counts again.
    Resumed {
        /// The number of its charge.
        number: u64,
    },
    /// A crash tore the previous line.
    Torn {
        /// The number of the torn line, from 1.
        line: usize,
        /// The digest of its bytes.
        sha256: String,
    },
}

/// Returns the line's text with its digest, after a line with the digest `last`, and the digest.
pub(super) fn chained(last: &str, line: &BudgetLine) -> (String, String) {
    sealed::line("line", &format!("{last}\n"), line)
}

/// Returns a line without its newline, if its digest is valid, and the digest.
pub(super) fn verified(last: &str, text: &[u8]) -> Result<(BudgetLine, String), String> {
    #[derive(Deserialize)]
    struct Chained {
        line: BudgetLine,
    }
    let Chained { line } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let (whole, digest) = chained(last, &line);
    if whole.strip_suffix('\n').is_some_and(|whole| whole.as_bytes() == text) {
        Ok((line, digest))
    } else {
        Err("its digest does not match".into())
    }
}
