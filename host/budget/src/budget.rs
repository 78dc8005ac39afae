//! The file of a budget, and the charges of runs.

use crate::lines::{BudgetHeader, BudgetLine, chained, verified};
use crate::plan::RunPlan;
use crate::record::{BudgetRecord, Damage, parse};
use damper_accounting::AccountingError;
use damper_files::{FileError, create_new_private, sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum size of a budget file in bytes.
const LARGEST: u64 = 1 << 28;

/// The error of an unusable budget file, or of a run that exceeds the budget: one line with the file and the fix.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum BudgetError {
    #[error("{}: {problem}", file.display())]
    File { file: PathBuf, problem: String },
    #[error(transparent)]
    Create(#[from] FileError),
    #[error("{}: this run would bring {dataset} to epsilon {} at delta {delta:e}, above the limit of {limit}; {remedy}", file.display(), damper_accounting::upward(*total))]
    Exceeded { file: PathBuf, dataset: String, total: f64, delta: f64, limit: f64, remedy: String },
    #[error("{}: the cost of its runs cannot be computed: {error}", file.display())]
    Cost { file: PathBuf, error: AccountingError },
}

/// An open budget file, locked until it is dropped.
#[derive(Debug)]
pub struct BudgetFile {
    path: PathBuf,
    file: File,
    len: u64,
    /// The digest of the last line.
    last: String,
    record: BudgetRecord,
}

/// A charge that its run may reduce.
#[derive(Debug)]
pub struct Reservation {
    path: PathBuf,
    number: u64,
    plan: RunPlan,
}

impl BudgetFile {
    /// Creates a budget file that only its owner can read.
    ///
    /// # Errors
    ///
    /// The file exists, or cannot be written.
    pub fn create(path: &Path, header: BudgetHeader) -> Result<(), BudgetError> {
        let text = chained("", &BudgetLine::Header(header)).0;
        Ok(create_new_private(path, text.as_bytes())?)
    }

    /// Opens, locks and reads a budget file. Waits until the lock is free.
    ///
    /// # Errors
    ///
    /// The file is missing, torn or damaged.
    pub fn open(path: &Path) -> Result<Self, BudgetError> {
        let (file, bytes) = locked(path)?;
        Self::open_locked(path, file, &bytes)
    }

    /// Appends a line which records that the last line is torn. The run of a torn line did not begin. If only the line
    /// end is missing, the line counts. Returns false if no line is torn.
    ///
    /// # Errors
    ///
    /// The file is missing, damaged elsewhere, or cannot be written.
    pub fn repair(path: &Path) -> Result<bool, BudgetError> {
        let (mut file, bytes) = locked(path)?;
        let (line, last, torn) = match parse(&bytes) {
            Err(Damage::Torn { line, last, bytes }) if line > 1 => (line, last, bytes),
            _ => return Self::open_locked(path, file, &bytes).map(|_| false),
        };
        let text = if verified(&last, &torn).is_ok() {
            // Only the line end is missing, so the line counts.
            "\n".to_owned()
        } else {
            let repaired = BudgetLine::Torn { line, sha256: sha256(&torn) };
            format!("\n{}", chained(&last, &repaired).0)
        };
        append(&mut file, bytes.len() as u64, &text).map_err(|error| fault(path, unwritten(&error)))?;
        Ok(true)
    }

    fn open_locked(path: &Path, file: File, bytes: &[u8]) -> Result<Self, BudgetError> {
        let parsed = parse(bytes)
            .map_err(|damage| fault(path, damage.to_string().replace("FILE", &path.display().to_string())))?;
        Ok(Self { path: path.into(), file, len: bytes.len() as u64, last: parsed.last, record: parsed.record })
    }

    /// Returns the content of the file.
    #[must_use]
    pub fn record(&self) -> &BudgetRecord {
        &self.record
    }

    /// Charges the whole of `plan`. When it returns, the charge is durable, and the run may begin.
    ///
    /// # Errors
    ///
    /// The run is a simulation, it would exceed the limit, or the charge cannot be written.
    pub fn reserve(mut self, command: &str, out: &Path, plan: RunPlan) -> Result<Reservation, BudgetError> {
        if plan.is_not_private() {
            let problem = "a run that is not private cannot be charged: it releases the data without noise, so after it no limit of \
                           this budget would hold; leave out `not_private`, or leave out `budget` if the data are public";
            return Err(fault(&self.path, problem.into()));
        }
        if plan.run != "private" {
            let problem = "a simulation is not private at any epsilon, for its noise can be recomputed: leave out the seed, or \
                           leave out `budget` if the data are public";
            return Err(fault(&self.path, problem.into()));
        }
        self.check_limit(&plan)?;
        let number = self.record.charges.last().map_or(1, |last| last.number + 1);
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (command, out) = (command.to_owned(), out.display().to_string());
        self.append(&BudgetLine::Charge { number, unix_seconds, command, out, plan: plan.clone() })?;
        Ok(Reservation { path: self.path, number, plan })
    }

    /// Charges the whole plan of charge `number` again, for a resumed run. Since the run stopped, only its charged
    /// steps counted.
    ///
    /// # Errors
    ///
    /// The charge does not exist, the run would exceed the limit, or the charge cannot be written.
    pub fn reserve_again(mut self, number: u64) -> Result<Reservation, BudgetError> {
        let Some(at) = self.record.charges.iter().position(|charge| charge.number == number) else {
            return Err(fault(
                &self.path,
                format!("it has no charge {number}, which is that of the run; name the run's own budget"),
            ));
        };
        let plan = self.record.charges[at].plan.clone();
        if self.record.charges[at].steps < plan.steps {
            let stopped = self.record.charges.remove(at);
            self.check_limit(&plan)?;
            self.record.charges.insert(at, stopped);
            self.append(&BudgetLine::Resumed { number })?;
        }
        Ok(Reservation { path: self.path, number, plan })
    }

    /// Returns an error for a plan that would exceed the limit.
    fn check_limit(&self, plan: &RunPlan) -> Result<(), BudgetError> {
        let total = self.record.epsilon(Some(&plan.events)).map_err(|error| self.cost(error))?;
        let BudgetHeader { epsilon, delta, dataset, .. } = &self.record.header;
        let Some(limit) = epsilon.filter(|limit| total > *limit) else { return Ok(()) };
        let spent = self.record.epsilon(None).map_err(|error| self.cost(error))?;
        Err(BudgetError::Exceeded {
            dataset: dataset.clone(),
            total,
            delta: *delta,
            limit,
            remedy: format!(
                "{} is spent; use more noise (damper calibrate `budget` {} finds it) or fewer steps",
                damper_accounting::upward(spent),
                self.path.display()
            ),
            file: self.path.clone(),
        })
    }

    fn append(&mut self, line: &BudgetLine) -> Result<(), BudgetError> {
        let (text, last) = chained(&self.last, line);
        append(&mut self.file, self.len, &text).map_err(|error| fault(&self.path, unwritten(&error)))?;
        self.len += text.len() as u64;
        self.last = last;
        Ok(())
    }

    fn cost(&self, error: AccountingError) -> BudgetError {
        BudgetError::Cost { file: self.path.clone(), error }
    }
}

impl Reservation {
    /// Returns the charged plan.
    #[must_use]
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Returns the number of the charge.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reduces the charge to `paid` steps, those of the run's ledger, because the run has ended and takes no more
    /// steps.
    ///
    /// # Errors
    ///
    /// The file is damaged or cannot be written. The whole plan stays charged.
    pub fn narrow(self, paid: u32) -> Result<(), BudgetError> {
        if paid >= self.plan.steps {
            return Ok(());
        }
        let events = self.plan.paid(paid);
        BudgetFile::open(&self.path)?.append(&BudgetLine::Paid { number: self.number, steps: paid, events })
    }
}

fn fault(path: &Path, problem: String) -> BudgetError {
    BudgetError::File { file: path.into(), problem }
}

fn unwritten(error: &io::Error) -> String {
    format!("cannot be written ({error}), so nothing may run: see to the disk")
}

/// Returns the locked file and its content.
fn locked(path: &Path) -> Result<(File, Vec<u8>), BudgetError> {
    let open = || -> io::Result<(File, Vec<u8>)> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        file.lock()?;
        let mut bytes = Vec::new();
        (&mut file).take(LARGEST + 1).read_to_end(&mut bytes)?;
        Ok((file, bytes))
    };
    match open() {
        Ok((_, bytes)) if bytes.len() as u64 > LARGEST => {
            Err(fault(path, format!("larger than {} MiB, as no budget is", LARGEST >> 20)))
        }
        Ok(found) => Ok(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(fault(
            path,
            format!("there is no such budget; make it: damper budget {} `create` NAME `delta` D", path.display()),
        )),
        Err(error) => Err(fault(path, format!("cannot be opened and locked ({error}); make it readable and writable"))),
    }
}

/// Appends `text` to a file of `len` bytes, and syncs it. Removes a partially written text.
fn append(file: &mut File, len: u64, text: &str) -> io::Result<()> {
    if let Err(error) = file.write_all(text.as_bytes()) {
        // The run does not begin. If this fails too, the next reader finds a torn line.
        let _ = file.set_len(len).and_then(|()| file.sync_all());
        return Err(error);
    }
    file.sync_all()
}

#[cfg(test)]
mod tests;
