//! State for resuming a run after a stop: Ctrl-C, a kill, a power cut, a full disk.
//!
//! The private folder `checkpoint` holds two files, `state-a` and `state-b`, written in turn and each whole or absent. A file holds
//! the key, the parameters and all other state after a step ([`snapshot`]). If the newer one is damaged, the older one serves. Both
//! are removed once the run's outputs are written.
//!
//! # How a run goes on
//!
//! The ledger counts the steps charged, at least those that released something; the state is of an earlier step or the same.
//!
//! - **The same program, backend and processor** (environment): the run goes on after the step of its state. It takes charged steps again,
//!   with the same key, draws, noise and gradients. The values are the same, so each is still one release, charged once, and the run ends
//!   with the bits that it would have without the stop.
//! - **Anything else**, or a backend that may round differently from run to run: the gradients of a step that is taken again might
//!   differ, and two different sums would share noise. So the run goes on after the last *charged* step. The steps between are lost:
//!   they are charged, and their noise is never used again. The price stays that of the plan.
//!
//! Model, data and plan must be those of the run in both cases.
//!
//! # Privacy
//!
//! The files are as secret as the data: with the key, the noise of every release can be computed. Whoever goes on twice from a copy of
//! the folder, in two environments, releases two sums with one noise; a lock keeps two processes from one folder.

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

/// The file whose lock a run holds.
const LOCK: &str = "lock";

/// The state of a run on disk, and what decides when it is written next. It holds the folder's lock.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    header: Header,
    key: Zeroizing<[u8; 32]>,
    /// True if another process began the run.
    resumed: bool,
    /// State to go on from, if the run was resumed after a step.
    restored: Option<Snapshot>,
    /// True if the state on the disk is of another environment.
    moved: bool,
    /// The slot of the next state: 0 or 1.
    next: usize,
    every: Duration,
    saved: Instant,
    _lock: File,
}

/// From where the steps of a run go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The first step, from 0.
    pub(crate) first: u32,
    /// Steps that the ledger on the disk counts as charged.
    pub(crate) charged: u32,
    /// Steps that this stop has lost.
    pub(crate) lost: u32,
}

/// The state after a step, as a file has it.
#[derive(Debug)]
pub(crate) struct Saved {
    step: u32,
    state: Vec<u8>,
}

impl Saved {
    /// Gives `memory` its values.
    ///
    /// # Errors
    ///
    /// The state is of another method.
    pub(crate) fn restore(&self, memory: &mut dyn SaveState) -> Result<(), RestoreError> {
        state::restore(memory, self.step, &self.state)
    }

    /// For the other ranks of a run.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.state.extend(self.step.to_le_bytes());
        self.state
    }

    /// From [`into_bytes`](Self::into_bytes).
    pub(crate) fn of_bytes(mut bytes: Vec<u8>) -> Option<Self> {
        let (state, step) = bytes.split_last_chunk()?;
        let (len, step) = (state.len(), u32::from_le_bytes(*step));
        bytes.truncate(len);
        Some(Self { step, state: bytes })
    }
}

/// For the other ranks of a run.
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
    /// The state of a run that begins, with a fresh key. `folder` is a private folder that is there, and `invocation` what whoever
    /// resumes needs to prepare the same run. State is written at every `every`.
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

    /// The state of a run that stopped.
    ///
    /// # Errors
    ///
    /// There is none, all of it is damaged, the run is still going on, or model, data or plan are others.
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
    /// There is none, or all of it is damaged.
    pub fn invocation(folder: &Path) -> Result<Invocation, CheckpointError> {
        Ok(snapshot::newest(folder)?.1.header.invocation)
    }

    /// Returns the names of columns and classes of the data of the run whose state is in `folder`: the data that it goes on with must have
    /// them, in any order.
    ///
    /// # Errors
    ///
    /// There is none, or all of it is damaged.
    pub fn names(folder: &Path) -> Result<KnownNames, CheckpointError> {
        let names = snapshot::newest(folder)?.1.header.names;
        Ok(KnownNames { names, origin: "the run".into(), are_all: false })
    }

    /// Steps that the run whose state is in `folder` has taken, as far as the state goes.
    ///
    /// # Errors
    ///
    /// There is none, or all of it is damaged.
    pub fn steps(folder: &Path) -> Result<u32, CheckpointError> {
        Ok(snapshot::newest(folder)?.1.header.step)
    }

    /// Removes the state of a finished run, and its key.
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

    /// The private folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The run's key.
    pub(crate) fn key(&self) -> Zeroizing<[u8; 32]> {
        self.key.clone()
    }

    /// Returns the step from which the run resumes in `environment`.
    ///
    /// # Errors
    ///
    /// The ledger is needed and damaged.
    pub(crate) fn place(&mut self, environment: Environment, plan: &RunPlan) -> Result<Place, TrainError> {
        let step = self.header.step;
        if plan.is_not_private() {
            // Nothing was charged, so no step is lost, wherever it goes on.
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
            // A ledger that cannot be read counts whole.
            return Ok(Place { first: step, charged: charged.unwrap_or(plan.steps).max(step), lost: 0 });
        }
        let folder = self.folder.clone();
        let charged = charged.map_err(|problem| CheckpointError::Ledger { folder, problem })?.max(step);
        Ok(Place { first: charged, charged, lost: charged - step })
    }

    /// Gives `memory` the values that it had after the step of the state, and notes that the run goes on at `place`.
    ///
    /// # Errors
    ///
    /// The state is of another method, or cannot be written.
    pub(crate) fn restore(&mut self, place: Place, memory: &mut dyn SaveState) -> Result<(), TrainError> {
        if let Some(saved) = self.take_saved() {
            saved.restore(memory).map_err(|error| self.damaged(error))?;
        }
        self.go_on(place, memory)
    }

    /// The error of a state that cannot be restored.
    pub(crate) fn damaged(&self, error: RestoreError) -> TrainError {
        CheckpointError::Damaged { folder: self.folder.clone(), problem: error.to_string() }.into()
    }

    /// The state to go on from, if the run was resumed after a step; once.
    pub(crate) fn take_saved(&mut self) -> Option<Saved> {
        let Snapshot { header, state, .. } = self.restored.take()?;
        Some(Saved { step: header.step, state })
    }

    /// Notes that the run goes on at `place` from `memory`, which has been restored.
    ///
    /// # Errors
    ///
    /// The state cannot be written.
    pub(crate) fn go_on(&mut self, place: Place, memory: &mut dyn SaveState) -> Result<(), TrainError> {
        self.header.step = place.first;
        self.header.lost += place.lost;
        if self.moved {
            // In both files: none is left that goes on where the run was before.
            self.write(memory)?;
            self.write(memory)?;
        }
        Ok(())
    }

    /// Returns the progress of the run before the stop.
    pub(crate) fn moment(&self) -> Moment {
        self.header.moment.clone()
    }

    /// The constants that features are normalised by, if they are released.
    pub(crate) fn normalize(&self) -> Option<Normalize> {
        self.header.normalize.as_ref()?.parse().ok()
    }

    /// Keeps released constants. No step is taken before.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub(crate) fn keep_normalize(&mut self, constants: &Normalize) -> Result<(), FileError> {
        self.header.normalize = Some(constants.to_string());
        self.write(&mut ())
    }

    /// The released number of rows without a finite gradient, if it is kept.
    pub(crate) fn non_finite(&self) -> Option<f32> {
        self.header.non_finite
    }

    /// Keeps that number. No step is taken before.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub(crate) fn keep_non_finite(&mut self, released: f32) -> Result<(), FileError> {
        self.header.non_finite = Some(released);
        self.write(&mut ())
    }

    /// Returns true unless it is sure that no earlier process of the run wrote this ledger.
    pub(crate) fn may_have_charged(&self, ledger: &str) -> bool {
        self.resumed && may_be_there(&self.folder.join(ledger))
    }

    /// The part of the run's recording that is on the disk, if the run goes on at `place`.
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

    /// Steps that stops have lost.
    pub(crate) fn lost(&self) -> u32 {
        self.header.lost
    }

    /// Returns true if it is time to write the state.
    pub(crate) fn is_due(&self) -> bool {
        self.saved.elapsed() >= self.every
    }

    /// Writes the state after `step` steps. `recorded` bytes of the recording are on the disk.
    ///
    /// # Errors
    ///
    /// The disk is full or fails; the state before it stays.
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

/// Removes a file, if it is there.
fn remove(file: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CheckpointError::Io { file: file.into(), error }),
        _ => Ok(()),
    }
}

/// Takes the folder's lock, which ends with the process.
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
