//! The ledger of a federation's rounds, on each device and on the server: a round is charged, on the disk, before anything of it is released.
//!
//! Rounds go up. Each is charged once or passed for a later one, and a passed round costs nothing. A folder is one party's. It holds the
//! ledger and a lock, and no key: each round has a fresh one.

use super::{FederationError, FederationPlan};
use damper_core::accounting::{Ledger, Record, Store};
use damper_core::error::OpenError;
use damper_files::{Access, FileError, create_private_folder, sealed, write};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const LEDGER: &str = "ledger.json";
const LOCK: &str = "lock";
/// The content of the lock once there is a ledger.
const USED: &[u8] = b"used\n";

/// The rounds that are charged, in a private folder that one process uses at a time.
#[derive(Debug)]
pub struct RoundLedger {
    folder: PathBuf,
    record: Charged,
    _lock: File,
}

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Charged {
    /// Rounds of the plan.
    budget: u32,
    /// Rounds that are charged.
    paid: u32,
    /// The first round that may still be charged.
    next_round: u32,
    /// The plan's digest.
    plan: String,
}

/// Persists the charge of one round.
#[derive(Debug)]
pub struct RoundStore {
    file: PathBuf,
    record: Charged,
    round: u32,
}

impl RoundStore {
    fn write(&self, record: &Charged) -> Result<(), FileError> {
        write(&self.file, sealed::line("ledger", "", record).0.as_bytes(), Access::Private)
    }
}

impl Store for RoundStore {
    type Error = FileError;

    fn persist(&mut self, _: Record) -> Result<(), FileError> {
        let after = self.record.after(self.round);
        self.write(&after)
    }

    // The number of the step that is opened next is the round's, which is the address of its noise.
    fn charged_steps(&self) -> u32 {
        self.round
    }
}

impl Charged {
    /// The record once `round` is charged too.
    fn after(&self, round: u32) -> Self {
        Self { paid: self.paid.saturating_add(1), next_round: round.saturating_add(1), ..self.clone() }
    }

    fn read(bytes: &[u8], plan: &FederationPlan) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            ledger: Charged,
            sha256: String,
        }
        let File { ledger, sha256 } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if sealed::digest(&ledger) != sha256 {
            return Err("its digest does not match".into());
        }
        if ledger.plan != plan.digest() || ledger.budget != plan.rounds {
            return Err("it is the ledger of another plan".into());
        }
        if ledger.paid > ledger.next_round || ledger.next_round > plan.rounds {
            return Err(format!("it counts {} charged rounds of {}", ledger.paid, ledger.next_round));
        }
        Ok(ledger)
    }
}

/// Returns true unless it is sure that the folder of this lock never had a ledger.
fn is_used(lock: &File) -> bool {
    lock.metadata().map_or(true, |metadata| metadata.len() > 0)
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
        let opened = File::options().create(true).append(true).open(&lock);
        let mut opened = opened.map_err(|error| FederationError::Io { file: lock.clone(), error })?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FederationError::Running(folder.into())),
            Err(TryLockError::Error(error)) => return Err(FederationError::Io { file: lock, error }),
        }
        let damaged = |problem: String| FederationError::Ledger { folder: folder.into(), problem };
        let record = match fs::read(&file) {
            Ok(bytes) => Charged::read(&bytes, plan).map_err(damaged)?,
            // A folder that was used has a ledger: its lock says so. A first process that was stopped earlier charged nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_used(&opened) => {
                return Err(damaged("it is missing".into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let record = Charged { budget: plan.rounds, paid: 0, next_round: 0, plan: plan.digest() };
                RoundStore { file, record: record.clone(), round: 0 }.write(&record)?;
                record
            }
            Err(error) => return Err(FederationError::Io { file, error }),
        };
        if !is_used(&opened) {
            let marked = opened.write_all(USED).and_then(|()| opened.sync_all());
            marked.map_err(|error| FederationError::Io { file: lock, error })?;
        }
        Ok(Self { folder: folder.into(), record, _lock: opened })
    }

    /// Rounds that are charged. Those that were passed are not.
    #[must_use]
    pub fn charged(&self) -> u32 {
        self.record.paid
    }

    /// The first round that may still be charged.
    #[must_use]
    pub fn next_round(&self) -> u32 {
        self.record.next_round
    }

    /// The ledger from which `round` is opened next. Nothing is charged yet.
    ///
    /// # Errors
    ///
    /// The round is charged or passed already, or is not in the plan.
    pub fn at(&self, round: u32) -> Result<Ledger<RoundStore>, FederationError> {
        let Charged { budget, next_round, .. } = self.record;
        if round >= budget {
            return Err(FederationError::Spent { round, rounds: budget });
        }
        if round < next_round {
            return Err(FederationError::Charged { round, next: next_round });
        }
        let store = RoundStore { file: self.folder.join(LEDGER), record: self.record.clone(), round };
        Ok(Ledger::resume(store, budget, round))
    }

    /// Notes that `round` was charged through the ledger of [`at`](Self::at).
    pub fn passed(&mut self, round: u32) {
        if round >= self.record.next_round {
            self.record = self.record.after(round);
        }
    }

    /// Charges `round`, on the disk.
    ///
    /// # Errors
    ///
    /// The round is charged or passed already, is not in the plan, or the disk fails. The round is given up then.
    pub fn charge(&mut self, round: u32) -> Result<(), FederationError> {
        let mut ledger = self.at(round)?;
        self.passed(round);
        match ledger.charge() {
            Ok(_) => Ok(()),
            Err(OpenError::Store(error)) => Err(error.into()),
            Err(OpenError::BudgetSpent | OpenError::Call(_)) => {
                Err(FederationError::Spent { round, rounds: self.record.budget })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::settings;

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
        assert!(matches!(ledger.charge(0), Err(FederationError::Charged { round: 0, next: 1 })));
        // Round 1 was missed: it costs nothing, and is never opened again.
        ledger.charge(2).unwrap();
        drop(ledger);
        let mut ledger = RoundLedger::open(&place, &plan()).unwrap();
        assert_eq!((ledger.charged(), ledger.next_round()), (2, 3));
        assert!(matches!(ledger.charge(1), Err(FederationError::Charged { round: 1, next: 3 })));
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
        // A process that was stopped before it had written a ledger.
        fs::write(place.join(LOCK), b"").unwrap();
        assert_eq!(RoundLedger::open(&place, &plan()).unwrap().charged(), 0);
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
