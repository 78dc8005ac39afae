//! Statement on a run that is not private, `statement.json`: it makes no claim, and its first keys give the reason.

use super::unfinished::{is_finished, planned};
use crate::evidence::{EVENTS, EvidenceError, RECORD, ReleasedFile, bytes, is_there, parsed, released};
use crate::record::{NotPrivateReport, REASON};
use damper_budget::PLAN;
use damper_train::{Checkpoint, NOT_PRIVATE};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Statement on a run without privacy, `statement.json`: it makes no claim.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NotPrivateStatement {
    /// Always `None`.
    pub epsilon: Option<f64>,
    /// Always `None`.
    pub delta: Option<f64>,
    /// States the lack of a guarantee, and the reason.
    pub guarantee: &'static str,
    /// Always false.
    pub guaranteed: bool,
    /// Always `not private`.
    pub run: &'static str,
    /// True if the run has finished.
    pub finished: bool,
    /// Number of steps taken. `None` if an unfinished run has no state that contains it.
    pub steps: Option<u32>,
    /// The released files.
    pub files: Vec<ReleasedFile>,
    /// Version of damper that wrote this.
    pub damper: &'static str,
    /// Record of the run, after it has finished.
    pub record: Option<NotPrivateReport>,
}

impl NotPrivateStatement {
    /// Reads the records in `folder`. Returns `None` if none of them is of a run that is not private.
    ///
    /// # Errors
    ///
    /// A record is of a run that is not private, and `report.json` of the finished run is missing or damaged.
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

    /// Returns the content of `statement.json`, with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        damper_train::files::json(self).expect("a statement has string keys and finite numbers")
    }
}

/// Returns true if a record in `folder` states that the run is not private: `report.json`, `events.json` or the plan.
/// One record suffices.
///
/// # Errors
///
/// A file cannot be read.
pub fn is_not_private(folder: &Path) -> Result<bool, EvidenceError> {
    /// Only the required key of a record.
    #[derive(Deserialize)]
    struct Kind {
        run: Option<String>,
    }
    // The later reader rejects a path that is not a folder.
    if !folder.is_dir() {
        return Ok(false);
    }
    for (name, limit) in [("report.json", RECORD), ("events.json", EVENTS)] {
        let path = folder.join(name);
        // The later reader rejects a damaged record.
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
