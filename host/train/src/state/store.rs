//! The ledger file. Charges are durable before anything is released.

use crate::engine::ranks::group::{Group, agree};
use crate::state::files::{Access, FileError, HELD_OUT_LEDGER, LEDGER, write};
use crate::{Run, TrainError};
use damper_budget::RunPlan;
use damper_core::accounting::{Record, Store};
use damper_files::sealed;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Number of steps charged at a time. A crash loses at most this many.
pub(crate) const RESERVE: u32 = 64;

/// Stores the record in one private file, which is replaced atomically and synced.
pub(crate) struct LedgerFile {
    path: PathBuf,
    /// The digest of the run's plan.
    plan: String,
    /// Number of steps that the file counts as charged. A resumed run repeats some of them, and never writes less.
    paid: u32,
}

impl LedgerFile {
    /// Returns the ledger in `checkpoint` of a run with `plan`, with `paid` charged steps.
    pub(crate) fn new(checkpoint: &Path, plan: &RunPlan, paid: u32) -> Self {
        Self { path: checkpoint.join(LEDGER), plan: plan.digest(), paid }
    }

    /// Returns the ledger `path` of a plan with this digest, with `paid` charged steps.
    pub(crate) fn of_plan(path: PathBuf, plan: String, paid: u32) -> Self {
        Self { path, plan, paid }
    }

    /// Returns the ledger of noisy releases from held-out rows. The run's privacy cost counts all planned releases.
    pub(crate) fn of_held_out(checkpoint: &Path, plan: &RunPlan) -> Self {
        Self { path: checkpoint.join(HELD_OUT_LEDGER), plan: plan.digest(), paid: 0 }
    }
}

/// The ledger of a run on several ranks. Rank 0 has the file. A rank counts a charge after the file is written.
pub(crate) struct RanksLedger<'a> {
    file: Option<LedgerFile>,
    group: &'a dyn Group,
}

impl<'a> RanksLedger<'a> {
    /// Creates the ledger. Only rank 0 passes a `file`.
    pub(crate) fn new(file: Option<LedgerFile>, group: &'a dyn Group) -> Self {
        Self { file, group }
    }

    /// Sets the charged steps to `steps`, without the reserved steps after them, because the run stops before opening
    /// those. Steps charged by an earlier process stay charged.
    pub(crate) fn settle(&mut self, budget: u32, steps: u32) -> Result<(), TrainError> {
        self.persist(Record { budget, paid: steps, ..Record::NONE })
    }
}

impl Store for RanksLedger<'_> {
    type Error = TrainError;

    fn persist(&mut self, record: Record) -> Result<(), TrainError> {
        let written = self.file.as_mut().map_or(Ok(()), |file| file.persist(record));
        agree(self.group, written.map_err(TrainError::from))
    }
}

impl Store for LedgerFile {
    type Error = FileError;

    // The file is bound to its plan, which determines the privacy cost.
    fn persist(&mut self, record: Record) -> Result<(), FileError> {
        let Record { budget, paid, divergence, order, .. } = record;
        let paid = paid.max(self.paid);
        let record = PaidRecord { budget, paid, divergence, order, plan: self.plan.clone() };
        write(&self.path, sealed::line("ledger", "", &record).0.as_bytes(), Access::Private)
    }
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaidRecord {
    budget: u32,
    paid: u32,
    divergence: f64,
    order: u32,
    plan: String,
}

/// Returns the number of charged steps in the ledger of a run with `plan`, at least those that released something. The
/// error describes the damage.
///
/// # Errors
///
/// `bytes` is not a ledger, its digest does not match, or it is for another plan.
pub fn paid_steps(bytes: &[u8], plan: &RunPlan) -> Result<u32, String> {
    match paid_of(bytes, &plan.digest(), plan.steps)? {
        0 => Err(format!("it counts 0 paid steps of {}", plan.steps)),
        paid => Ok(paid),
    }
}

/// Returns the number of charged steps in the ledger of a plan with this digest and `steps` steps.
pub(crate) fn paid_of(bytes: &[u8], plan: &str, steps: u32) -> Result<u32, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        ledger: PaidRecord,
        sha256: String,
    }
    let File { ledger, sha256 } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if sealed::digest(&ledger) != sha256 {
        return Err("its digest does not match".into());
    }
    if ledger.plan != plan || ledger.budget != steps {
        return Err("it is the ledger of another plan".into());
    }
    if ledger.paid > steps {
        return Err(format!("it counts {} paid steps of {steps}", ledger.paid));
    }
    Ok(ledger.paid)
}

/// Writes the plan of `run` into `checkpoint`, and a ledger that charges all its steps, for an audit that trains.
///
/// # Errors
///
/// The disk is full or fails.
pub fn pay_all(run: &Run, checkpoint: &Path) -> Result<(), TrainError> {
    pay_plan(&run.run_plan()?, checkpoint)
}

/// Writes `plan` into `checkpoint`, and a ledger that charges all its steps. Both are durable when it returns.
///
/// # Errors
///
/// The disk is full or fails.
pub fn pay_plan(plan: &RunPlan, checkpoint: &Path) -> Result<(), TrainError> {
    plan.write(checkpoint)?;
    let all = Record { budget: plan.steps, paid: plan.steps, ..Record::NONE };
    Ok(LedgerFile::new(checkpoint, plan, 0).persist(all)?)
}
