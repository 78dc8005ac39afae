//! An aggregator. Everything that it accepted, agreed to and released is on its disk before anything depends on it.
//!
//! | file | what |
//! | --- | --- |
//! | `aggregator.json` | the role, and the first round that is not passed |
//! | `ledger.json`, `lock` | the charged rounds (`damper_federation::RoundLedger`) |
//! | `device-D` | device D's report as it came, or this aggregator's share of the update after its proof holds |
//! | `round-R.key` | the verify key of round R |
//! | `round-R.cohort` | the devices in the sum of round R, fixed once |
//! | `round-R.share` | this aggregator's share of that sum |
//!
//! # Rules
//!
//! - A report is signed by a member. A member has one report in a round. After it sent a report of a later round, only
//!   later rounds are possible.
//! - The cohort of a round is fixed once. It has at least the plan's smallest number of devices, and reports on one
//!   request. Rounds are fixed in increasing order.
//! - The share of a sum is that of the fixed cohort, always with the same bytes. It is sent after its round is charged.
//!
//! So two sums of one round are possible only if both aggregators are dishonest, or lose their folders.

mod proofs;
mod sums;

pub use proofs::PendingReport;

use crate::folder::{Content, read_sealed, remove, write_sealed};
use crate::report_set::{CohortFile, ReportSet};
use crate::upload::Upload;
use crate::verify::SumShare;
use crate::{FolderError, Refusal, Role, Scheme};
use damper_federation::{Aggregation, FederationPlan, RoundLedger};
use damper_files::{Access, FileError, sealed, write};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const STATE: &str = "aggregator.json";

/// Progress of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Stored,
    Verified,
    Refused,
}

/// A report, without its shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) round: u32,
    pub(crate) digest: [u8; 32],
    pub(crate) request: [u8; 32],
    pub(crate) stage: Stage,
}

impl Entry {
    fn of(content: &Content) -> Self {
        match content {
            Content::Stored(upload) => {
                Self { round: upload.round, digest: upload.digest(), request: upload.request, stage: Stage::Stored }
            }
            Content::Verified { round, digest, request, .. } => {
                Self { round: *round, digest: *digest, request: *request, stage: Stage::Verified }
            }
            Content::Refused { round, digest, request } => {
                Self { round: *round, digest: *digest, request: *request, stage: Stage::Refused }
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    role: String,
    next_round: u32,
}

pub(crate) struct State {
    pub(crate) ledger: RoundLedger,
    /// True after a charge failed. The state of the disk is then unknown until the folder is opened again.
    pub(crate) is_given_up: bool,
    /// First round that the other aggregator had not charged in its last message.
    passed: u32,
    /// First round with a cohort that may still be fixed.
    pub(crate) next_round: u32,
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) keys: HashMap<u32, [u8; 32]>,
    /// The last fixed cohort.
    pub(crate) fixed: Option<ReportSet>,
}

/// An aggregator with its folder.
pub struct Aggregator {
    plan: FederationPlan,
    role: Role,
    folder: PathBuf,
    log: fn(&str),
    state: Mutex<State>,
}

impl Aggregator {
    /// Opens the aggregator with the folder `folder`, which is created if it does not exist. `log` receives messages
    /// for its operator.
    ///
    /// # Errors
    ///
    /// The plan has no members or is not for aggregators, or another process uses the folder. Or the folder's content
    /// is damaged or of another plan or role.
    pub fn open(folder: &Path, plan: FederationPlan, role: Role, log: fn(&str)) -> Result<Self, FolderError> {
        if plan.aggregation != Aggregation::Prio {
            return Err(FolderError::Plan("the plan is not for aggregators; plan with `aggregation` prio"));
        }
        if plan.members.is_empty() {
            return Err(FolderError::Plan(
                "the plan has no members, so anybody could be a device; plan with `members`",
            ));
        }
        // A partial file of a stopped process may hold shares. Opening the ledger removes it.
        let ledger = RoundLedger::open(folder, &plan)?;
        let passed = open_head(folder, role, &ledger)?;
        let next_round = passed.max(ledger.next_round());
        let state = State {
            ledger,
            is_given_up: false,
            passed,
            next_round,
            entries: BTreeMap::new(),
            keys: HashMap::new(),
            fixed: None,
        };
        let this = Self { plan, role, folder: folder.into(), log, state: Mutex::new(state) };
        this.read_folder()?;
        Ok(this)
    }

    fn read_folder(&self) -> Result<(), FolderError> {
        let mut state = self.lock();
        let failed = |error| FolderError::Io { file: self.folder.clone(), error };
        let mut rounds = vec![];
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let damaged = || FolderError::Damaged(path.clone());
            if let Some(device) = name.strip_prefix("device-") {
                let device = device.parse().map_err(|_| damaged())?;
                let content = read_sealed(&path)?.and_then(|body| Content::from_bytes(&body)).ok_or_else(damaged)?;
                state.entries.insert(device, Entry::of(&content));
            } else if let Some(round) = name.strip_suffix(".key").and_then(|name| name.strip_prefix("round-")) {
                let key = read_sealed(&path)?.and_then(|body| body.try_into().ok()).ok_or_else(damaged)?;
                state.keys.insert(round.parse().map_err(|_| damaged())?, key);
            } else if name.ends_with(".cohort") {
                let cohort = read_cohort(&path)?;
                rounds.push(cohort.round);
                if state.fixed.as_ref().is_none_or(|fixed| fixed.round < cohort.round) {
                    state.fixed = Some(cohort);
                }
            }
        }
        if let Some(round) = state.fixed.as_ref().map(|fixed| fixed.round) {
            state.next_round = state.next_round.max(round.saturating_add(1));
            // A stopped process left the earlier sums.
            rounds.into_iter().filter(|before| *before != round).for_each(|before| self.remove_sum(before));
        }
        self.ensure_share(&mut state)
    }

    pub(crate) fn remove_sum(&self, round: u32) {
        remove(&self.of_round(round, "share"));
        remove(&self.of_round(round, "cohort"));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves the disk unchanged, and memory is written after the disk.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: impl std::fmt::Display) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn of_device(&self, device: u64) -> PathBuf {
        self.file(format_args!("device-{device}"))
    }

    pub(crate) fn of_round(&self, round: u32, kind: &str) -> PathBuf {
        self.file(format_args!("round-{round}.{kind}"))
    }

    /// Returns the error for a failure of the aggregator's own disk, and logs it for its operator.
    pub(crate) fn failed(&self, error: impl Into<FolderError>) -> Refusal {
        (self.log)(&error.into().to_string());
        Refusal::Disk
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &FederationPlan {
        &self.plan
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Logs a message for the operator.
    pub(crate) fn say(&self, text: &str) {
        (self.log)(text);
    }

    /// Returns the first round that neither aggregator has charged, to the knowledge of this aggregator.
    #[must_use]
    pub fn uncharged_round(&self) -> u32 {
        let state = self.lock();
        // A failed charge is in memory only.
        let own = if state.is_given_up { state.next_round.saturating_sub(1) } else { state.ledger.next_round() };
        own.max(state.passed)
    }

    /// Passes the rounds before `next_round`, which the other aggregator has charged. An aggregator that lost its
    /// folder has no record of them.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn pass(&self, next_round: u32) -> Result<(), Refusal> {
        let mut state = self.lock();
        let next_round = next_round.min(self.plan.rounds);
        if next_round > state.passed {
            write_head(&self.folder, self.role, next_round).map_err(|error| self.failed(error))?;
            state.passed = next_round;
            state.next_round = state.next_round.max(next_round);
            self.ensure_share(&mut state).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Stores a report. When it returns, the report survives a power cut. The same report may be stored again.
    ///
    /// # Errors
    ///
    /// It is not signed by a member for an open round of the plan, or the member has sent another report.
    pub fn store(&self, upload: Upload) -> Result<(), Refusal> {
        upload.check(&self.plan, self.role)?;
        let (device, digest, round) = (upload.device, upload.digest(), upload.round);
        let mut state = self.lock();
        if let Some(fixed) = state.fixed.as_ref().filter(|fixed| fixed.round == round)
            && fixed.reports.get(&device) == Some(&digest)
        {
            return Ok(());
        }
        if round < state.next_round {
            return Err(Refusal::Passed);
        }
        match state.entries.get(&device) {
            Some(entry) if entry.round == round && entry.digest == digest => {
                return if entry.stage == Stage::Refused { Err(Refusal::Proof) } else { Ok(()) };
            }
            Some(entry) if entry.round >= round => return Err(Refusal::Counted),
            // The cohort of an earlier round may need this member's report, if its share could not be written.
            Some(_) => self.ensure_share(&mut state).map_err(|error| self.failed(error))?,
            None => {}
        }
        self.put(&mut state, device, &Content::Stored(upload))
    }

    pub(crate) fn put(&self, state: &mut State, device: u64, content: &Content) -> Result<(), Refusal> {
        write_sealed(&self.of_device(device), &content.to_bytes()).map_err(|error| self.failed(error))?;
        state.entries.insert(device, Entry::of(content));
        Ok(())
    }

    pub(crate) fn get(&self, device: u64) -> Result<Content, Refusal> {
        let file = self.of_device(device);
        let content = read_sealed(&file).map_err(|error| self.failed(error))?;
        content.and_then(|body| Content::from_bytes(&body)).ok_or_else(|| self.failed(FolderError::Damaged(file)))
    }

    /// Writes the share of the fixed cohort's sum if it is missing. Then removes the reports of closed rounds.
    pub(crate) fn ensure_share(&self, state: &mut State) -> Result<(), FolderError> {
        let Some(fixed) = &state.fixed else {
            self.tidy(state);
            return Ok(());
        };
        let file = self.of_round(fixed.round, "share");
        if read_sealed(&file)?.is_none() {
            let scheme = Scheme::of_plan(&self.plan, fixed.round)?;
            let mut sum = SumShare::new(&scheme);
            for (device, wanted) in &fixed.reports {
                let of_device = self.of_device(*device);
                let content = read_sealed(&of_device)?.and_then(|body| Content::from_bytes(&body));
                match content {
                    Some(Content::Verified { digest, output, .. }) if digest == *wanted => sum.add(&output)?,
                    _ => return Err(FolderError::Damaged(of_device)),
                }
            }
            write_sealed(&file, &sum.to_bytes()?)?;
        }
        self.tidy(state);
        Ok(())
    }

    /// Removes the reports and keys of closed rounds.
    fn tidy(&self, state: &mut State) {
        let next = state.next_round;
        for (device, _) in state.entries.extract_if(.., |_, entry| entry.round < next) {
            remove(&self.of_device(device));
        }
        let closed: Vec<u32> = state.keys.keys().copied().filter(|round| *round < next).collect();
        for round in closed {
            remove(&self.of_round(round, "key"));
            state.keys.remove(&round);
        }
    }
}

fn write_head(folder: &Path, role: Role, next_round: u32) -> Result<(), FileError> {
    let head = Head { role: role.name().into(), next_round };
    write(&folder.join(STATE), sealed::line("aggregator", "", &head).0.as_bytes(), Access::Private)
}

/// Returns the first round that is not passed, from the folder's file. Writes the file if the folder is new.
fn open_head(folder: &Path, role: Role, ledger: &RoundLedger) -> Result<u32, FolderError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        aggregator: Head,
        sha256: String,
    }
    let file = folder.join(STATE);
    match fs::read(&file) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes).ok();
            let read = read.filter(|File { aggregator, sha256 }| sealed::digest(aggregator) == *sha256);
            let Some(File { aggregator: Head { role: other, next_round }, .. }) = read else {
                return Err(FolderError::Damaged(file));
            };
            let same = other == role.name();
            if same {
                Ok(next_round)
            } else {
                Err(FolderError::Role { folder: folder.into(), role: role.name(), other })
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && ledger.next_round() == 0 => {
            write_head(folder, role, 0)?;
            Ok(0)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FolderError::Damaged(file)),
        Err(error) => Err(FolderError::Io { file, error }),
    }
}

fn read_cohort(path: &Path) -> Result<ReportSet, FolderError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        cohort: CohortFile,
        sha256: String,
    }
    let bytes = fs::read(path).map_err(|error| FolderError::Io { file: path.into(), error })?;
    let read = serde_json::from_slice(&bytes).ok();
    let read = read.filter(|File { cohort, sha256 }| sealed::digest(cohort) == *sha256);
    read.and_then(|File { cohort, .. }| cohort.cohort()).ok_or_else(|| FolderError::Damaged(path.into()))
}
