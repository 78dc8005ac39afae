//! State for resuming a run after a stop: Ctrl-C, a kill, a power cut, a full disk.
//!
//! The private folder `checkpoint` has two files, `state-a` and `state-b`, which are written alternately and
//! atomically. A file has the key, the parameters and all other state after a step ([`snapshot`]). If the newer file is
//! damaged, the older file is used. Both are removed after the run's outputs are written.
//!
//! # Resuming
//!
//! The ledger counts the charged steps, which are at least the steps that released something. The state is from the
//! last of these or an earlier step.
//!
//! - **Same program, backend and processor** (environment): the run resumes after the step of its state. It repeats
//!   charged steps with the same key, draws, noise and gradients. The values are the same, so each step is still one
//!   release that is charged once. The run ends with the bits of a run that never stopped.
//! - **Any other environment**, or a backend that may round differently between runs: repeated steps might have
//!   different gradients. Two different sums would then share noise. So the run resumes after the last *charged* step.
//!   The steps between are lost: they are charged, and their noise is never used again. The privacy cost stays that of
//!   the plan.
//!
//! In both cases, model, data and plan must be those of the run.
//!
//! # Privacy
//!
//! The files are as secret as the data, because the key determines the noise of every release. If a copy of the folder
//! is resumed twice in two environments, two sums are released with the same noise. A lock keeps two processes from
//! using one folder.

mod environment;
mod error;
mod identity;
mod snapshot;

pub(crate) use environment::Environment;
pub use error::CheckpointError;
pub(crate) use identity::{check_same, identity};
pub(crate) use snapshot::FILES as STATES;
pub use snapshot::Invocation;
pub(crate) use snapshot::Moment;

use crate::engine::generator;
use crate::state::files::{FileError, LEDGER, may_be_there};
use crate::state::recording::Beginning;
use crate::state::store::paid_steps;
use crate::{Evaluation, Run, TrainError};
use damper_budget::RunPlan;
use damper_core::state::{self, RestoreError, SaveState};
use damper_data::{KnownNames, Normalize};
use snapshot::{Header, Snapshot};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The file that a run locks.
const LOCK: &str = "lock";

/// The saved state of a run, with the schedule of its writes. It holds the folder's lock.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    header: Header,
    key: Zeroizing<[u8; 32]>,
    /// True if another process started the run.
    resumed: bool,
    /// The state to resume from, if the run was resumed after a step.
    restored: Option<Snapshot>,
    /// True if the state on disk is from another environment.
    moved: bool,
    /// The index of the next state file: 0 or 1.
    next: usize,
    every: Duration,
    saved: Instant,
    _lock: File,
}

/// The step from which a run continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The first step to take, counted from 0.
    pub(crate) first: u32,
    /// Number of steps that the ledger on disk counts as charged.
    pub(crate) charged: u32,
    /// Number of steps that this stop lost.
    pub(crate) lost: u32,
}

/// The saved state after a step.
#[derive(Debug)]
pub(crate) struct Saved {
    step: u32,
    state: Vec<u8>,
}

impl Saved {
    /// Restores `memory` from the state.
    ///
    /// # Errors
    ///
    /// The state is from another method.
    pub(crate) fn restore(&self, memory: &mut dyn SaveState) -> Result<(), RestoreError> {
        state::restore(memory, self.step, &self.state)
    }

    /// Encodes the state for the other ranks of a run.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.state.extend(self.step.to_le_bytes());
        self.state
    }

    /// Decodes [`into_bytes`](Self::into_bytes).
    pub(crate) fn of_bytes(mut bytes: Vec<u8>) -> Option<Self> {
        let (state, step) = bytes.split_last_chunk()?;
        let (len, step) = (state.len(), u32::from_le_bytes(*step));
        bytes.truncate(len);
        Some(Self { step, state: bytes })
    }
}

/// Encoding for the other ranks of a run.
impl Place {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.first, self.charged, self.lost].iter().flat_map(|steps| steps.to_le_bytes()).collect()
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let [first, charged, lost] = <[[u8; 4]; 3]>::try_from(bytes.as_chunks().0).ok()?.map(u32::from_le_bytes);
        Some(Self { first, charged, lost })
    }
}

impl Checkpoint {
    /// Creates the state of a new run, with a fresh key. `folder` is an existing private folder. `invocation` is the
    /// information from which the same run can be prepared again. State is written at intervals of `every`.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or the operating system gives no key.
    pub fn begin(folder: &Path, run: &Run, invocation: Invocation, every: Duration) -> Result<Self, TrainError> {
        let lock = lock(folder)?;
        for name in snapshot::FILES {
            remove(&folder.join(name))?;
        }
        let key = generator::key(run.config.seed)?;
        let header = Header::new(invocation, run)?;
        let mut begun = Self {
            folder: folder.into(),
            header,
            key,
            resumed: false,
            restored: None,
            moved: true,
            next: 0,
            every,
            saved: Instant::now(),
            _lock: lock,
        };
        begun.write(&mut ())?;
        Ok(begun)
    }

    /// Opens the state of a stopped run.
    ///
    /// # Errors
    ///
    /// The state does not exist or is damaged, the run is still in progress, or model, data or plan differ.
    pub fn resume(folder: &Path, run: &Run, every: Duration) -> Result<Self, TrainError> {
        if !folder.is_dir() {
            return Err(CheckpointError::Nothing(folder.into()).into());
        }
        let lock = lock(folder)?;
        let (at, snapshot) = snapshot::newest(folder)?;
        let other = |what| Err(CheckpointError::Other { folder: folder.into(), what }.into());
        let expected = Header::new(snapshot.header.invocation.clone(), run)?;
        if snapshot.header.model != expected.model {
            return other("model");
        }
        if snapshot.header.data != expected.data {
            return other("data");
        }
        if snapshot.header.plan != expected.plan {
            return other("plan of steps and noise");
        }
        snapshot::remove_unfinished(folder);
        Ok(Self {
            folder: folder.into(),
            header: snapshot.header.clone(),
            key: snapshot.key.clone(),
            moved: true,
            next: 1 - at,
            resumed: true,
            restored: (snapshot.header.step > 0).then_some(snapshot),
            every,
            saved: Instant::now(),
            _lock: lock,
        })
    }

    /// Returns the invocation of the run whose state is in `folder`.
    ///
    /// # Errors
    ///
    /// The state does not exist, or both files are damaged.
    pub fn invocation(folder: &Path) -> Result<Invocation, CheckpointError> {
        Ok(snapshot::newest(folder)?.1.header.invocation)
    }

    /// Returns the names of columns and classes in the data of the run with its state in `folder`. The data of a
    /// resumed run must have the same names, in any order.
    ///
    /// # Errors
    ///
    /// The state does not exist, or both files are damaged.
    pub fn names(folder: &Path) -> Result<KnownNames, CheckpointError> {
        let names = snapshot::newest(folder)?.1.header.names;
        Ok(KnownNames { names, origin: "the run".into(), are_all: false })
    }

    /// Returns the number of steps in the state of the run in `folder`.
    ///
    /// # Errors
    ///
    /// The state does not exist, or both files are damaged.
    pub fn steps(folder: &Path) -> Result<u32, CheckpointError> {
        Ok(snapshot::newest(folder)?.1.header.step)
    }

    /// Removes the state and the key of a finished run.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn remove(folder: &Path) -> Result<(), CheckpointError> {
        for name in [snapshot::FILES[0], snapshot::FILES[1], LOCK] {
            remove(&folder.join(name))?;
        }
        Ok(())
    }

    /// Returns the private folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the run's key.
    pub(crate) fn key(&self) -> Zeroizing<[u8; 32]> {
        self.key.clone()
    }

    /// Returns the step from which the run resumes in `environment`.
    ///
    /// # Errors
    ///
    /// The ledger is needed but damaged.
    pub(crate) fn place(&mut self, environment: Environment, plan: &RunPlan) -> Result<Place, TrainError> {
        let step = self.header.step;
        if plan.is_not_private() {
            // Nothing was charged, so no step is lost in any environment.
            self.moved = self.header.environment.as_ref() != Some(&environment);
            self.header.environment = Some(environment);
            return Ok(Place { first: step, charged: 0, lost: 0 });
        }
        let file = self.folder.join(LEDGER);
        let charged = match fs::read(&file) {
            Ok(bytes) => paid_steps(&bytes, plan),
            Err(error) if error.kind() == io::ErrorKind::NotFound && step == 0 => Ok(0),
            Err(error) => Err(error.to_string()),
        };
        let same = environment.repeats_bits() && self.header.environment.as_ref() == Some(&environment);
        self.moved = !same;
        self.header.environment = Some(environment);
        if same || charged == Ok(0) {
            // An unreadable ledger counts as fully charged.
            return Ok(Place { first: step, charged: charged.unwrap_or(plan.steps).max(step), lost: 0 });
        }
        let folder = self.folder.clone();
        let charged = charged.map_err(|problem| CheckpointError::Ledger { folder, problem })?.max(step);
        Ok(Place { first: charged, charged, lost: charged - step })
    }

    /// Restores `memory` to its values after the step of the state, and records that the run resumes at `place`.
    ///
    /// # Errors
    ///
    /// The state is from another method, or cannot be written.
    pub(crate) fn restore(&mut self, place: Place, memory: &mut dyn SaveState) -> Result<(), TrainError> {
        if let Some(saved) = self.take_saved() {
            saved.restore(memory).map_err(|error| self.damaged(error))?;
        }
        self.go_on(place, memory)
    }

    /// Returns the error for a state that cannot be restored.
    pub(crate) fn damaged(&self, error: RestoreError) -> TrainError {
        CheckpointError::Damaged { folder: self.folder.clone(), problem: error.to_string() }.into()
    }

    /// Takes the state to resume from, if the run was resumed after a step. A second call returns `None`.
    pub(crate) fn take_saved(&mut self) -> Option<Saved> {
        let Snapshot { header, state, .. } = self.restored.take()?;
        Some(Saved { step: header.step, state })
    }

    /// Records that the run resumes at `place` with `memory`, which has been restored.
    ///
    /// # Errors
    ///
    /// The state cannot be written.
    pub(crate) fn go_on(&mut self, place: Place, memory: &mut dyn SaveState) -> Result<(), TrainError> {
        self.header.step = place.first;
        self.header.lost += place.lost;
        if self.moved {
            // Writes both files, so that neither resumes at the earlier position.
            self.write(memory)?;
            self.write(memory)?;
        }
        Ok(())
    }

    /// Returns the progress of the run before the stop.
    pub(crate) fn moment(&self) -> Moment {
        self.header.moment.clone()
    }

    /// Returns the constants that normalise the features, if they are released.
    pub(crate) fn normalize(&self) -> Option<Normalize> {
        self.header.normalize.as_ref()?.parse().ok()
    }

    /// Saves released constants. This must precede the first step.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub(crate) fn keep_normalize(&mut self, constants: &Normalize) -> Result<(), FileError> {
        self.header.normalize = Some(constants.to_string());
        self.write(&mut ())
    }

    /// Returns the released number of rows without a finite gradient, if it is saved.
    pub(crate) fn non_finite(&self) -> Option<f32> {
        self.header.non_finite
    }

    /// Saves that number. This must precede the first step.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub(crate) fn keep_non_finite(&mut self, released: f32) -> Result<(), FileError> {
        self.header.non_finite = Some(released);
        self.write(&mut ())
    }

    /// Returns false only if no earlier process of the run can have written this ledger.
    pub(crate) fn may_have_charged(&self, ledger: &str) -> bool {
        self.resumed && may_be_there(&self.folder.join(ledger))
    }

    /// Returns the part of the run's recording that is on disk, if the run resumes at `place`.
    pub(crate) fn recorded(&self, place: Place) -> Beginning {
        match self.resumed {
            false => Beginning::New { kept: true },
            true => Beginning::Resumed {
                step: self.header.step,
                len: self.header.recorded,
                lost: self.header.lost + place.lost,
            },
        }
    }

    /// Returns the number of steps that stops have lost.
    pub(crate) fn lost(&self) -> u32 {
        self.header.lost
    }

    /// Returns true if the state must be written now.
    pub(crate) fn is_due(&self) -> bool {
        self.saved.elapsed() >= self.every
    }

    /// Writes the state after `step` steps. `recorded` bytes of the recording are on disk.
    ///
    /// # Errors
    ///
    /// The disk is full or fails. The previous state stays.
    pub(crate) fn save(
        &mut self,
        step: u32,
        seconds: f64,
        evaluations: &[Evaluation],
        recorded: Option<u64>,
        memory: &mut dyn SaveState,
    ) -> Result<(), FileError> {
        self.header.step = step;
        self.header.recorded = recorded;
        self.header.moment = Moment { seconds, evaluations: evaluations.to_vec() };
        self.write(memory)
    }

    fn write(&mut self, memory: &mut dyn SaveState) -> Result<(), FileError> {
        snapshot::write(&self.folder.join(snapshot::FILES[self.next]), &mut self.header, &self.key, memory)?;
        self.next = 1 - self.next;
        self.saved = Instant::now();
        Ok(())
    }
}

/// Removes a file, if it exists.
fn remove(file: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CheckpointError::Io { file: file.into(), error }),
        _ => Ok(()),
    }
}

/// Locks the folder. The lock ends with the process.
fn lock(folder: &Path) -> Result<File, CheckpointError> {
    let file = folder.join(LOCK);
    let opened = File::options().create(true).append(true).open(&file);
    let opened = opened.map_err(|error| CheckpointError::Io { file: file.clone(), error })?;
    match opened.try_lock() {
        Ok(()) => Ok(opened),
        Err(TryLockError::WouldBlock) => Err(CheckpointError::Running(folder.into())),
        Err(TryLockError::Error(error)) => Err(CheckpointError::Io { file, error }),
    }
}
