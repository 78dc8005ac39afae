//! `runs.jsonl`: every finished run, a line each, so that a stopped comparison can continue.
//!
//! A line is appended and on the disk before the next run starts. A truncated last line is dropped, and its run is
//! repeated. Lines of runs outside the current plan stay.

use super::{Found, Task};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Results of a run: released or public values, as in its report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ComparisonFigures {
    /// Accuracy on the held-out samples, if the loss has classes.
    pub test_accuracy: Option<f64>,
    /// Mean loss on the held-out samples, if it is finite.
    pub test_loss: Option<f64>,
    /// ε of the whole run. `None` for a tuning run, which has no accounting.
    pub epsilon: Option<f64>,
    /// δ.
    pub delta: f64,
    /// σ over the clip, as used in the run.
    pub noise_multiplier: f64,
    /// Number of steps.
    pub steps: u32,
    /// Seconds of training, evaluation included.
    pub seconds: f64,
    /// Backend of the run.
    pub backend: String,
    /// SHA-256 of the trained parameters.
    pub params_digest: String,
    /// Number of trained parameters.
    pub parameters: usize,
    /// Training settings, as in the run's report.
    pub training: serde_json::Value,
    /// Outcome of a private search. The run is its best candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Found>,
}

impl ComparisonFigures {
    /// Returns the figure that tuning maximises.
    pub(super) fn score(&self) -> f64 {
        self.test_accuracy.or(self.test_loss.map(|loss| -loss)).unwrap_or(f64::NEG_INFINITY)
    }
}

/// A finished run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ComparisonRecord {
    /// Task of the run.
    #[serde(flatten)]
    pub task: Task,
    /// Results of the run.
    #[serde(flatten)]
    pub figures: ComparisonFigures,
}

/// A journal error: one line that names the file and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ComparisonJournalError(String);

/// The finished runs of a folder. No other comparison can open it at the same time.
#[derive(Debug)]
pub struct ComparisonJournal {
    path: PathBuf,
    file: File,
    records: Vec<ComparisonRecord>,
}

impl ComparisonJournal {
    /// Opens `path`, which need not exist. Its folder must exist.
    ///
    /// # Errors
    ///
    /// It cannot be read or written, is locked by another comparison, or a line other than the last is not a run.
    pub fn open(path: &Path) -> Result<Self, ComparisonJournalError> {
        let failed = |error: std::io::Error| cannot(path, &error);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(ComparisonJournalError(format!(
                    "{}: another comparison is at work in this folder: wait for it, or name another `out`",
                    path.display()
                )));
            }
            // A file system without locks: continue without a lock.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // An interrupted write leaves a partial line after the last newline.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut records = Vec::new();
        for (index, line) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let record = serde_json::from_slice(line).map_err(|error| {
                ComparisonJournalError(format!(
                    "{}: line {}: not a run of a comparison ({error}): remove the line, and its run is run again",
                    path.display(),
                    index + 1
                ))
            })?;
            records.push(record);
        }
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), file, records })
    }

    /// Returns the number of runs in it.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if it has no runs.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the figures of `task`, if it has run.
    pub(super) fn find(&self, task: &Task) -> Option<&ComparisonFigures> {
        self.records.iter().find(|record| record.task.is_same_run(task)).map(|record| &record.figures)
    }

    /// Appends `record`. It is on the disk when this returns.
    pub(super) fn record(&mut self, record: &ComparisonRecord) -> Result<(), ComparisonJournalError> {
        let mut line = serde_json::to_vec(record).map_err(|error| cannot(&self.path, &error.into()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| cannot(&self.path, &error))?;
        self.records.push(record.clone());
        Ok(())
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> ComparisonJournalError {
    ComparisonJournalError(format!(
        "{}: cannot be read or written ({error}): see to the disk and start again, finished runs are kept",
        path.display()
    ))
}
