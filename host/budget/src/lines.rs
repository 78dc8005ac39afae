//! The lines of a budget file. Each is a JSON object, `{"line": …, "sha256": …}`: the digest covers the line and the digest before
//! it, so a line that was changed or left out is found.

use crate::plan::RunPlan;
use damper_accounting::Recorded;
use damper_files::sealed;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetHeader {
    /// Version of the file's form.
    pub version: u32,
    /// The name that the user gave the data set.
    pub dataset: String,
    /// The limit of ε, if there is one.
    pub epsilon: Option<f64>,
    /// The δ of the total.
    pub delta: f64,
}

/// The version of the file's form.
pub(super) const VERSION: u32 = 1;

impl BudgetHeader {
    /// The header of a budget for `dataset`.
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
    /// A run, by its whole plan.
    Charge {
        /// Its number, from 1.
        number: u64,
        /// Seconds since 1970.
        unix_seconds: u64,
        /// The subcommand.
        command: String,
        /// Its output folder.
        out: String,
        /// Its plan.
        plan: RunPlan,
    },
    /// The paid steps of a run that ended before it charged its whole plan.
    Paid {
        /// The number of its charge.
        number: u64,
        /// Paid steps, an upper bound on those that released something.
        steps: u32,
        /// Their events.
        events: Recorded,
    },
    /// A run goes on that had ended before it charged its whole plan: the whole plan counts again.
    Resumed {
        /// The number of its charge.
        number: u64,
    },
    /// The line before this one was torn by a crash.
    Torn {
        /// The torn line, from 1.
        line: usize,
        /// The digest of its bytes.
        sha256: String,
    },
}

/// The line's text with its digest, after a line with the digest `last`; and the digest.
pub(super) fn chained(last: &str, line: &BudgetLine) -> (String, String) {
    sealed::line("line", &format!("{last}\n"), line)
}

/// A line without its newline, if its digest is right; and the digest.
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
