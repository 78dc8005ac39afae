//! The ledger of a federation's rounds, on each device and on the server: a round is charged, on the disk, before anything of it is released.
//!
//! A round's number is its step: the ledger gives each number once, and those that were skipped count as charged. A folder is one party's. It
//! holds the ledger and a lock, and no key: each round has a fresh one.

use super::{FederationError, FederationPlan};
use crate::files::{FileError, create_private_folder};
use crate::store::{LedgerFile, paid_of};
use damper_core::accounting::{Ledger, Record, Store};
use damper_core::error::OpenError;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

const LEDGER: &str = "ledger.json";
const LOCK: &str = "lock";

/// The rounds that are charged, in a private folder that one process uses at a time.
#[derive(Debug)]
pub struct RoundLedger {
    folder: PathBuf,
    plan: String,
    rounds: u32,
    charged: u32,
    _lock: File,
}

/// Persists the charge of one round, whose number is not below it.
pub(super) struct RoundStore {
    file: LedgerFile,
    round: u32,
}

impl Store for RoundStore {
    type Error = FileError;

    fn persist(&mut self, record: Record) -> Result<(), FileError> {
        self.file.persist(record)
    }

    fn charged_steps(&self) -> u32 {
        self.round
    }
}

impl RoundLedger {
    /// The ledger in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, another process uses it, or its ledger is missing, damaged or of another plan.
    pub fn open(folder: &Path, plan: &FederationPlan) -> Result<Self, FederationError> {
        create_private_folder(folder)?;
        let (file, lock) = (folder.join(LEDGER), folder.join(LOCK));
        let had_lock = lock.exists();
        let opened = File::options().create(true).append(true).open(&lock);
        let opened = opened.map_err(|error| FederationError::Io { file: lock.clone(), error })?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FederationError::Running(folder.into())),
            Err(TryLockError::Error(error)) => return Err(FederationError::Io { file: lock, error }),
        }
        let damaged = |problem: String| FederationError::Ledger { folder: folder.into(), problem };
        let (digest, rounds) = (plan.digest(), plan.rounds);
        let charged = match fs::read(&file) {
            Ok(bytes) => paid_of(&bytes, &digest, rounds).map_err(damaged)?,
            // A folder that was used has a ledger.
            Err(error) if error.kind() == io::ErrorKind::NotFound && had_lock => {
                return Err(damaged("it is missing".into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let none = Record { budget: rounds, ..Record::NONE };
                LedgerFile::of_plan(file, digest.clone(), 0).persist(none)?;
                0
            }
            Err(error) => return Err(FederationError::Io { file, error }),
        };
        Ok(Self { folder: folder.into(), plan: digest, rounds, charged, _lock: opened })
    }

    /// Rounds that are charged: all up to the last one that took place.
    #[must_use]
    pub fn charged(&self) -> u32 {
        self.charged
    }

    /// The ledger from which `round` is opened next. Nothing is charged yet.
    ///
    /// # Errors
    ///
    /// The round is charged already, or is not in the plan.
    pub(super) fn at(&self, round: u32) -> Result<Ledger<RoundStore>, FederationError> {
        if round >= self.rounds {
            return Err(FederationError::Spent { round, rounds: self.rounds });
        }
        if round < self.charged {
            return Err(FederationError::Charged { round, charged: self.charged });
        }
        let file = LedgerFile::of_plan(self.folder.join(LEDGER), self.plan.clone(), self.charged);
        Ok(Ledger::resume(RoundStore { file, round }, self.rounds, self.charged))
    }

    /// Notes that `round` was charged through the ledger of [`at`](Self::at).
    pub(super) fn passed(&mut self, round: u32) {
        self.charged = self.charged.max(round.saturating_add(1));
    }

    /// Charges `round` and those that were skipped, on the disk.
    ///
    /// # Errors
    ///
    /// The round is charged already, is not in the plan, or the disk fails. The round is given up then.
    pub fn charge(&mut self, round: u32) -> Result<(), FederationError> {
        let mut ledger = self.at(round)?;
        self.passed(round);
        match ledger.charge() {
            Ok(_) => Ok(()),
            Err(OpenError::Store(error)) => Err(error.into()),
            Err(OpenError::BudgetSpent | OpenError::Call(_)) => {
                Err(FederationError::Spent { round, rounds: self.rounds })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::settings;
    use super::*;

    fn plan() -> FederationPlan {
        FederationPlan::new(&settings(), 650, "m".repeat(64)).unwrap()
    }

    #[test]
    fn rounds_are_charged_once_and_survive() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        let mut ledger = RoundLedger::open(&place, &plan()).unwrap();
        ledger.charge(0).unwrap();
        assert!(matches!(RoundLedger::open(&place, &plan()), Err(FederationError::Running(_))));
        assert!(matches!(ledger.charge(0), Err(FederationError::Charged { round: 0, charged: 1 })));
        // Round 1 was missed.
        ledger.charge(2).unwrap();
        drop(ledger);
        let mut ledger = RoundLedger::open(&place, &plan()).unwrap();
        assert_eq!(ledger.charged(), 3);
        assert!(matches!(ledger.charge(1), Err(FederationError::Charged { round: 1, charged: 3 })));
        ledger.charge(4).unwrap();
        assert!(matches!(ledger.charge(5), Err(FederationError::Spent { round: 5, rounds: 5 })));
    }

    #[test]
    fn lost_or_foreign_ledger_is_error() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        RoundLedger::open(&place, &plan()).unwrap().charge(1).unwrap();
        let file = place.join(LEDGER);
        let good = fs::read(&file).unwrap();
        let other = FederationPlan { clip: 0.25, ..plan() };
        assert!(RoundLedger::open(&place, &other).unwrap_err().to_string().contains("another plan"));
        for bad in [&good[..good.len() / 2], b"", String::from_utf8_lossy(&good).replace(":2,", ":1,").as_bytes()] {
            fs::write(&file, bad).unwrap();
            assert!(matches!(RoundLedger::open(&place, &plan()), Err(FederationError::Ledger { .. })));
        }
        fs::remove_file(&file).unwrap();
        assert!(RoundLedger::open(&place, &plan()).unwrap_err().to_string().contains("missing"));
    }

    // A charge that cannot be written gives the round up.
    #[cfg(unix)]
    #[test]
    fn unwritten_charge_is_error() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        let mut ledger = RoundLedger::open(&place, &plan()).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o500)).unwrap();
        let is_root = fs::write(place.join("probe"), b"").is_ok();
        let charged = ledger.charge(0);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        if is_root {
            println!("skipped: the superuser may write everywhere");
            return;
        }
        assert!(matches!(charged, Err(FederationError::File(_))));
        assert!(matches!(ledger.charge(0), Err(FederationError::Charged { .. })));
    }
}
