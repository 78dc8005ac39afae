//! The ledger of a federation's rounds, on each device and on the server. A round is charged on disk before anything of
//! it is released.
//!
//! Round numbers increase. Each round is either charged once or skipped for a later round. A skipped round costs
//! nothing. Each party has its own folder. The folder has the ledger and a lock, but no key, because each round has a
//! fresh key.

use super::{FederationError, FederationPlan};
use damper_core::accounting::{Ledger, Record, Store};
use damper_core::error::OpenError;
use damper_files::{Access, AtomicFile, FileError, create_private_folder_for, hex, read_if_there, sealed, write_for};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

const LEDGER: &str = "ledger.json";
const LOCK: &str = "lock";
/// Name of the setting of the folder.
pub(crate) const SETTING: &str = "ledger";
/// Other files in a used folder.
const TRACES: [&str; 3] = ["kept.upd", "sent.log", "cohort.json"];
/// The content of the lock after a ledger exists.
const USED: &[u8] = b"used\n";

/// The charged rounds, in a private folder that a single process uses at a time.
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
    /// Number of rounds in the plan.
    budget: u32,
    /// Number of charged rounds.
    paid: u32,
    /// The first round that may still be charged.
    next_round: u32,
    /// The plan's digest.
    plan: String,
    /// The device, or 0 for a server.
    device: u32,
    /// A random identifier of the folder, for budgets.
    folder: String,
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
        write_for(&self.file, sealed::line("ledger", "", record).0.as_bytes(), Access::Private, SETTING)
    }
}

impl Store for RoundStore {
    type Error = FileError;

    fn persist(&mut self, _: Record) -> Result<(), FileError> {
        let after = self.record.after(self.round);
        self.write(&after)
    }

    // The step number of the next round is the round number, which is the address of its noise.
    fn charged_steps(&self) -> u32 {
        self.round
    }
}

impl Charged {
    /// Returns the record after `round` is charged.
    fn after(&self, round: u32) -> Self {
        Self { paid: self.paid.saturating_add(1), next_round: round.saturating_add(1), ..self.clone() }
    }

    /// Returns a record without charges.
    fn none(plan: &FederationPlan, device: u32) -> Result<Self, FederationError> {
        let mut folder = [0; 16];
        getrandom::fill(&mut folder).map_err(|error| {
            FederationError::Key(format!("the operating system gave no randomness ({error}); try again"))
        })?;
        let folder = hex(folder);
        Ok(Self { budget: plan.rounds, paid: 0, next_round: 0, plan: plan.digest(), device, folder })
    }

    /// Parses the content of a file. Returns `None` if a device's ledger has no charges and belongs to another plan or
    /// device.
    fn read(bytes: &[u8], plan: &FederationPlan, device: u32) -> Result<Option<Self>, String> {
        let ledger: Self = sealed::read("ledger", bytes)?;
        let is_of_plan = ledger.plan == plan.digest() && ledger.budget == plan.rounds;
        // A server's folder has files besides its ledger.
        let is_unused = ledger.next_round == 0 && ledger.device > 0 && device > 0;
        if is_unused && !(is_of_plan && ledger.device == device) {
            return Ok(None);
        }
        if !is_of_plan {
            return Err("it is the ledger of another plan".into());
        }
        match (ledger.device, device) {
            (found, wanted) if found == wanted => {}
            (0, _) => return Err("it is a server's".into()),
            (found, _) => return Err(format!("it is that of device {found}")),
        }
        if ledger.paid > ledger.next_round || ledger.next_round > plan.rounds {
            return Err(format!("it counts {} charged rounds of {}", ledger.paid, ledger.next_round));
        }
        Ok(Some(ledger))
    }
}

/// Returns false only if the folder of this lock certainly never had a ledger.
fn is_used(lock: &File) -> bool {
    lock.metadata().map_or(true, |metadata| metadata.len() > 0)
}

/// Returns true if a file of `folder` shows that something left it.
fn has_traces(folder: &Path) -> bool {
    TRACES.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
}

/// Returns an error if the ledger of `folder` has charged rounds of another plan than `plan`.
pub(crate) fn check_plan(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    let damaged = |problem: String| FederationError::Ledger { folder: folder.into(), problem };
    let file = folder.join(LEDGER);
    let device = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok()?["ledger"]["device"].as_u64();
    let found = read_if_there(&file).map_err(|error| FederationError::Io { file, error })?;
    let Some(bytes) = found else { return Ok(()) };
    let device = device(&bytes).and_then(|device| u32::try_from(device).ok()).unwrap_or_default();
    Charged::read(&bytes, plan, device).map(|_| ()).map_err(damaged)
}

impl RoundLedger {
    /// Opens a server's ledger in `folder`, which is created if needed.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, another process uses it, or its ledger is missing, damaged, or from another plan
    /// or party.
    pub fn open(folder: &Path, plan: &FederationPlan) -> Result<Self, FederationError> {
        Self::of_device(folder, plan, 0)
    }

    /// Opens the ledger of `device` in `folder`, which is created if needed. A ledger without charges is recreated for
    /// another plan.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn of_device(folder: &Path, plan: &FederationPlan, device: u32) -> Result<Self, FederationError> {
        create_private_folder_for(folder, SETTING)?;
        let (file, lock) = (folder.join(LEDGER), folder.join(LOCK));
        let opened = File::options().create(true).append(true).open(&lock);
        let mut opened = opened.map_err(|error| FederationError::Io { file: lock.clone(), error })?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FederationError::Running(folder.into())),
            Err(TryLockError::Error(error)) => return Err(FederationError::Io { file: lock, error }),
        }
        let damaged = |problem: String| FederationError::Ledger { folder: folder.into(), problem };
        AtomicFile::sweep(folder).map_err(|error| FederationError::Io { file: folder.into(), error })?;
        let bytes = read_if_there(&file).map_err(|error| FederationError::Io { file: file.clone(), error })?;
        // A used folder has a ledger, and its lock records that. If the first process stopped earlier, it charged
        // nothing.
        if bytes.is_none() && (is_used(&opened) || has_traces(folder)) {
            return Err(damaged("it is missing".into()));
        }
        let found = bytes.map(|bytes| Charged::read(&bytes, plan, device).map_err(damaged)).transpose()?.flatten();
        let record = match found {
            Some(record) => record,
            None => {
                let record = Charged::none(plan, device)?;
                RoundStore { file, record: record.clone(), round: 0 }.write(&record)?;
                record
            }
        };
        if !is_used(&opened) {
            let marked = opened.write_all(USED).and_then(|()| opened.sync_all());
            marked.map_err(|error| FederationError::Io { file: lock, error })?;
        }
        Ok(Self { folder: folder.into(), record, _lock: opened })
    }

    /// Returns the number of charged rounds. Skipped rounds are not counted.
    #[must_use]
    pub fn charged(&self) -> u32 {
        self.record.paid
    }

    /// Returns a random identifier of the folder, in hexadecimal. It does not depend on the folder's name, and differs
    /// between folders.
    #[must_use]
    pub fn folder_number(&self) -> &str {
        &self.record.folder
    }

    /// Returns the first round that may still be charged.
    #[must_use]
    pub fn next_round(&self) -> u32 {
        self.record.next_round
    }

    /// Returns the ledger that opens `round` next. It does not charge anything yet.
    ///
    /// # Errors
    ///
    /// The round is already charged or skipped, or is not in the plan.
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

    /// Records that `round` was charged through the ledger from [`at`](Self::at).
    pub fn passed(&mut self, round: u32) {
        if round >= self.record.next_round {
            self.record = self.record.after(round);
        }
    }

    /// Charges `round` on disk.
    ///
    /// # Errors
    ///
    /// The round is already charged or skipped, is not in the plan, or the disk fails. The round is then skipped.
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
        // Round 1 was skipped. It costs nothing, and can never be opened.
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
        let of_device = RoundLedger::of_device(&place, &plan(), 3).unwrap_err().to_string();
        assert!(of_device.contains("a server's"), "{of_device}");
        assert!(RoundLedger::open(&place, &other).unwrap_err().to_string().contains("another plan"));
        for bad in [&good[..good.len() / 2], b"", String::from_utf8_lossy(&good).replace(":2,", ":1,").as_bytes()] {
            fs::write(&file, bad).unwrap();
            assert!(matches!(RoundLedger::open(&place, &plan()), Err(FederationError::Ledger { .. })));
        }
        fs::remove_file(&file).unwrap();
        assert!(RoundLedger::open(&place, &plan()).unwrap_err().to_string().contains("missing"));
        // If the lock is gone too, other files show that the folder was used.
        fs::write(place.join(LOCK), b"").unwrap();
        fs::write(place.join("sent.log"), b"{}").unwrap();
        assert!(RoundLedger::open(&place, &plan()).unwrap_err().to_string().contains("missing"));
        fs::remove_file(place.join("sent.log")).unwrap();
        // A process that stopped before it wrote a ledger.
        fs::write(place.join(LOCK), b"").unwrap();
        assert_eq!(RoundLedger::open(&place, &plan()).unwrap().charged(), 0);
    }

    // A plan without charges does not block the folder for another plan. A device's folder belongs to that device
    // alone.
    #[test]
    fn uncharged_folder_takes_another_plan() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        let other = FederationPlan { clip: 0.25, ..plan() };
        let number = |ledger: &RoundLedger| ledger.folder_number().to_owned();
        let first = number(&RoundLedger::of_device(&place, &plan(), 1).unwrap());
        assert_eq!(number(&RoundLedger::of_device(&place, &plan(), 1).unwrap()), first);
        let mut second = RoundLedger::of_device(&place, &other, 2).unwrap();
        assert!(number(&second) != first && first.len() == 32);
        second.charge(0).unwrap();
        drop(second);
        fs::write(place.join(".damper-left"), b"").unwrap();
        for (plan, device, words) in
            [(&plan(), 2, "another plan"), (&other, 1, "that of device 2"), (&other, 0, "device 2")]
        {
            let message = RoundLedger::of_device(&place, plan, device).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
        assert!(!place.join(".damper-left").exists());
        assert!(check_plan(&place, &plan()).is_err());
        check_plan(&place, &other).unwrap();
    }

    // A charge that cannot be written skips the round.
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
