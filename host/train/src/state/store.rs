//! The ledger's file: what was charged, durable before anything is released.

use crate::engine::ranks::group::{Group, agree};
use crate::state::files::{Access, FileError, HELD_OUT_LEDGER, LEDGER, write};
use crate::{Run, TrainError};
use damper_budget::RunPlan;
use damper_core::accounting::{Record, Store};
use damper_files::sealed;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Steps charged at a time: a crash burns at most so many.
pub(crate) const RESERVE: u32 = 64;

/// Keeps the record in one private file, replaced atomically and synced.
pub(crate) struct LedgerFile {
    path: PathBuf,
    /// The digest of the run's plan.
    plan: String,
    /// Steps that the file counts as paid. A resumed run takes some of them again, and writes no less.
    paid: u32,
}

impl LedgerFile {
    /// The ledger in `checkpoint` of a run with `plan`, which counts `paid` steps as paid.
    pub(crate) fn new(checkpoint: &Path, plan: &RunPlan, paid: u32) -> Self {
        Self { path: checkpoint.join(LEDGER), plan: plan.digest(), paid }
    }

    /// The ledger `path` of a plan with this digest, which counts `paid` steps as paid.
    pub(crate) fn of_plan(path: PathBuf, plan: String, paid: u32) -> Self {
        Self { path, plan, paid }
    }

    /// The ledger of noisy releases from held-out rows. The run's cost counts all that are planned.
    pub(crate) fn of_held_out(checkpoint: &Path, plan: &RunPlan) -> Self {
        Self { path: checkpoint.join(HELD_OUT_LEDGER), plan: plan.digest(), paid: 0 }
    }
}

/// The ledger of a run on several ranks. Rank 0 keeps the file. A charge is made on a rank when it knows that the file is written.
pub(crate) struct RanksLedger<'a> {
    file: Option<LedgerFile>,
    group: &'a dyn Group,
}

impl<'a> RanksLedger<'a> {
    /// `file` is rank 0's.
    pub(crate) fn new(file: Option<LedgerFile>, group: &'a dyn Group) -> Self {
        Self { file, group }
    }

    /// Counts `steps` steps as paid, and not those that were reserved after them: the run stops, and none of those was opened. Steps that
    /// an earlier process paid for stay.
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

    // The file is bound to its plan, which has all that the price depends on.
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

/// Steps that the ledger of a run with `plan` counts as paid: at least those that released something. The error says what is
/// damaged.
///
/// # Errors
///
/// `bytes` is no ledger, its digest does not match, or it is of another plan.
pub fn paid_steps(bytes: &[u8], plan: &RunPlan) -> Result<u32, String> {
    match paid_of(bytes, &plan.digest(), plan.steps)? {
        0 => Err(format!("it counts 0 paid steps of {}", plan.steps)),
        paid => Ok(paid),
    }
}

/// Steps that the ledger of a plan with this digest, of `steps` steps, counts as paid.
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

/// Writes the plan of `run` into `checkpoint`, and a ledger in which all its steps are charged: for an audit that trains.
///
/// # Errors
///
/// The disk is full or fails.
pub fn pay_all(run: &Run, checkpoint: &Path) -> Result<(), TrainError> {
    pay_plan(&run.run_plan()?, checkpoint)
}

/// Writes `plan` into `checkpoint`, and a ledger in which all its steps are charged. When it returns, both survive a power cut.
///
/// # Errors
///
/// The disk is full or fails.
pub fn pay_plan(plan: &RunPlan, checkpoint: &Path) -> Result<(), TrainError> {
    plan.write(checkpoint)?;
    let all = Record { budget: plan.steps, paid: plan.steps, ..Record::NONE };
    Ok(LedgerFile::new(checkpoint, plan, 0).persist(all)?)
}
