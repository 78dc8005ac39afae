//! The statement on a run that is not private, `statement.json`: it claims nothing, and its first keys give the reason.

use super::unfinished::{is_finished, planned};
use crate::evidence::{EVENTS, EvidenceError, RECORD, ReleasedFile, bytes, is_there, parsed, released};
use crate::record::{NotPrivateReport, REASON};
use damper_budget::PLAN;
use damper_train::{Checkpoint, NOT_PRIVATE};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The statement on a run without privacy, `statement.json`: that nothing is claimed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NotPrivateStatement {
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
    pub files: Vec<ReleasedFile>,
    /// The damper that wrote this.
    pub damper: &'static str,
    /// The run's own record, once it has finished.
    pub record: Option<NotPrivateReport>,
}

impl NotPrivateStatement {
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
