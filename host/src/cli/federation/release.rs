//! The one answer that leaves a device in a round: the update, or noise alone if the update is late.

use super::super::Failure;
use damper_train::federated::{DeviceNoise, Envelope, FederationPlan, Keeping, MemberKey, SentLog};
use damper_train::files::{Access, AtomicFile};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The answer to a request, which leaves once.
#[derive(Clone)]
pub(super) struct Release(Arc<Mutex<Option<Answer>>>);

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
    /// The answer of `device` to the request with this digest in `round`, to the file `out`. `folder` is the device's.
    pub(super) fn new(
        plan: &FederationPlan,
        (round, request): (u32, [u8; 32]),
        device: u32,
        key: Option<MemberKey>,
        folder: &Path,
        out: &Path,
    ) -> Result<Self, Failure> {
        // An update with a share of the noise is for a secure aggregation.
        let access = if plan.noise == DeviceNoise::Local { Access::Public } else { Access::Private };
        let file = AtomicFile::create(out, access)?;
        let (keeping, log) = (Keeping::new(folder, request), SentLog::new(folder));
        Ok(Self(Arc::new(Mutex::new(Some(Answer {
            plan: plan.clone(),
            round,
            device,
            request,
            key,
            keeping,
            log,
            file,
        })))))
    }

    /// Signs and keeps `update`, and writes it. Returns the number of bytes; None if an answer has left already.
    pub(super) fn first(&self, what: &str, update: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(answer) = locked(&self.0).take() else { return Ok(None) };
        let Answer { plan, round, device, request, key, keeping, log, mut file } = answer;
        let bytes = match &key {
            Some(key) => Envelope::seal(&plan, round, device.into(), &request, update, key),
            None => update.to_vec(),
        };
        keeping.keep(&bytes)?;
        log.add(round, what, &bytes)?;
        file.write_all(&bytes).map_err(|error| file.failed(&error))?;
        file.commit()?;
        Ok(Some(bytes.len()))
    }

    /// Writes what was kept, as it is.
    pub(super) fn again(&self, kept: &[u8]) -> Result<(), Failure> {
        let Some(Answer { round, log, mut file, .. }) = locked(&self.0).take() else { return Ok(()) };
        log.add(round, "the same again", kept)?;
        file.write_all(kept).map_err(|error| file.failed(&error))?;
        Ok(file.commit()?)
    }
}

/// Waits for a round to end, beside it.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<(Mutex<bool>, Condvar)>);

impl Watch {
    /// Sends `noise_alone` if no answer has left at `late`, and calls `end` with its length at `reply` unless the round has ended by then.
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
            let sent = match release.first("noise alone: the update was late", &noise_alone) {
                Ok(Some(bytes)) => Ok(bytes),
                // The update has left.
                Ok(None) => return,
                Err(failure) => Err(failure),
            };
            if watch.has_ended_by(reply).is_none() {
                // Held until the process ends, so that the round says nothing more.
                let _ended = locked(&watch.0.0);
                end(sent);
            }
        });
    }

    /// Waits until the round has ended, or `moment`. Returns None at the moment.
    fn has_ended_by(&self, moment: Instant) -> Option<()> {
        let (ended, signal) = &*self.0;
        let left = moment.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO);
        let waited = signal.wait_timeout_while(locked(ended), left, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ended.then_some(())
    }

    /// Says that the round has ended.
    pub(super) fn ended(&self) {
        let (ended, signal) = &*self.0;
        *locked(ended) = true;
        signal.notify_all();
    }
}
