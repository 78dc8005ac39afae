//! The only answer that leaves a device in a round: the update, or noise alone if the update is late.

use crate::cli::Failure;
use damper_federation::{Asked, DeviceNoise, Envelope, FederationPlan, Keeping, MemberKey, SentLog};
use damper_train::files::{Access, AtomicFile};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The answer to a request, which is sent once.
#[derive(Clone)]
pub(super) struct Release(Arc<Mutex<State>>);

enum State {
    /// No answer is chosen yet.
    Open(Box<Answer>),
    /// These bytes are stored, and will be sent.
    Kept(Box<AtomicFile>, Vec<u8>),
    /// The answer was sent.
    Sent,
}

struct Answer {
    plan: FederationPlan,
    round: u32,
    device: u32,
    request: [u8; 32],
    key: Option<MemberKey>,
    keeping: Keeping,
    log: SentLog,
    file: AtomicFile,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Release {
    /// Creates the answer of `device` to the request with this digest in `round`, for the file `out`. `folder` is the
    /// device's.
    pub(super) fn new(
        plan: &FederationPlan,
        (round, request): (u32, [u8; 32]),
        device: u32,
        key: Option<MemberKey>,
        folder: &Path,
        out: &Path,
    ) -> Result<Self, Failure> {
        // An update with a share of the noise is only for a secure aggregation.
        let access = if plan.noise == DeviceNoise::Local { Access::Public } else { Access::Private };
        let file = AtomicFile::create(out, access)?;
        let (keeping, log) = (Keeping::new(folder, request), SentLog::new(folder));
        let answer = Answer { plan: plan.clone(), round, device, request, key, keeping, log, file };
        Ok(Self(Arc::new(Mutex::new(State::Open(Box::new(answer))))))
    }

    /// Takes the answer, if none is chosen yet.
    fn open(state: &mut State) -> Option<Answer> {
        match std::mem::replace(state, State::Sent) {
            State::Open(answer) => Some(*answer),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Signs and stores `update`, which is sent next. Returns the number of bytes, or `None` if another answer was
    /// first.
    pub(super) fn keep(&self, what: &str, update: &[u8]) -> Result<Option<usize>, Failure> {
        let mut state = locked(&self.0);
        let Some(answer) = Self::open(&mut state) else { return Ok(None) };
        let bytes = match &answer.key {
            Some(key) => {
                let asked = Asked::new(&answer.plan, answer.round, answer.request);
                Envelope::seal(&asked, answer.device.into(), update, key)
            }
            None => update.to_vec(),
        };
        answer.keeping.keep(&bytes)?;
        answer.log.add(answer.round, what, &bytes)?;
        let len = bytes.len();
        *state = State::Kept(Box::new(answer.file), bytes);
        Ok(Some(len))
    }

    /// Chooses the stored bytes `kept` again, unchanged.
    pub(super) fn keep_again(&self, kept: Vec<u8>) -> Result<(), Failure> {
        let mut state = locked(&self.0);
        if let Some(Answer { round, log, file, .. }) = Self::open(&mut state) {
            log.add(round, "the same again", &kept)?;
            *state = State::Kept(Box::new(file), kept);
        }
        Ok(())
    }

    /// Writes the stored answer. Until then the file of the answer does not exist.
    pub(super) fn send(&self) -> Result<(), Failure> {
        let mut state = locked(&self.0);
        match std::mem::replace(&mut *state, State::Sent) {
            State::Kept(mut file, bytes) => {
                file.write_all(&bytes).map_err(|error| file.failed(&error))?;
                Ok(file.commit()?)
            }
            other => {
                *state = other;
                Ok(())
            }
        }
    }
}

/// Timer of a round, in its own thread.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<(Mutex<bool>, Condvar)>);

impl Watch {
    /// Starts the timer. Stores `noise_alone` if nothing else is stored at `late`. Calls `end` with its length at
    /// `reply`, unless the round has ended.
    pub(super) fn begin(
        &self,
        release: Release,
        noise_alone: Vec<u8>,
        (late, reply): (Instant, Instant),
        end: impl FnOnce(Result<usize, Failure>) + Send + 'static,
    ) {
        let watch = self.clone();
        thread::spawn(move || {
            if watch.has_ended_by(late).is_some() {
                return;
            }
            let kept = match release.keep("noise alone: the update was late", &noise_alone) {
                Ok(Some(bytes)) => Ok(bytes),
                // The update was first.
                Ok(None) => return,
                Err(failure) => Err(failure),
            };
            if watch.has_ended_by(reply).is_none() {
                // Locked until the process ends, so that the round prints nothing more.
                let _ended = locked(&watch.0.0);
                end(kept);
            }
        });
    }

    /// Waits until the round has ended, or `moment`. Returns `None` at the moment.
    fn has_ended_by(&self, moment: Instant) -> Option<()> {
        let (ended, signal) = &*self.0;
        let left = moment.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO);
        let waited = signal.wait_timeout_while(locked(ended), left, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ended.then_some(())
    }

    /// Marks the round as ended.
    pub(super) fn ended(&self) {
        let (ended, signal) = &*self.0;
        *locked(ended) = true;
        signal.notify_all();
    }
}
