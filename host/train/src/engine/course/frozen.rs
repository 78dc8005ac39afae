//! The values of the frozen part, computed once for all samples.
//!
//! # Privacy
//!
//! They are as secret as the data. They are in memory alone, for as long as the run. A sample's values follow from that sample and public
//! weights, in the run's physical batch shape. All samples are computed before the first step, drawn or not, so the duration of a step
//! does not depend on whether a sample is new.

use crate::engine::rehearsal::{Independence, Made, Rehearsed, independence_of, made_up_data};
use crate::plan::graphs::frozen::check_size;
use crate::state::data_digest::data_digest;
use crate::{Progress, Run, RunEvent, TrainError};
use damper_data::{Batch, Chunk, Dataset, Features, Numbers, Split, chunks};
use damper_grad::FrozenPart;
use damper_onnx::{Dim, TensorRef};
use damper_runtime::{Backend, BackendError, Session, SessionSpec};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::vec::IntoIter;

/// `run` whose data are the values of its frozen part. None if it has no such part, or they are computed.
///
/// # Errors
///
/// The backend fails, the values do not fit into memory, or the listener stops the run.
pub(crate) fn computed(
    run: &Run,
    backend: &dyn Backend,
    progress: &mut dyn Progress,
) -> Result<Option<Run>, TrainError> {
    let Some(part) = &run.frozen else { return Ok(None) };
    let held = |split: &Split| split.held().map_or(split.len(), |held| held.len());
    let Dataset { train, test, sample, names, notes } = &*run.data;
    check_size(part, held(train) + test.as_ref().map_or(0, held), &run.config)?;
    let data_digest = run.data_digest.clone().map_or_else(|| data_digest(&run.data), Ok)?;
    let mut of = |split: &Split| stored_split(part, run, backend, split, progress);
    let test = test.as_ref().map(&mut of).transpose()?;
    let data = Dataset { train: of(train)?, test, sample, names: names.clone(), notes: notes.clone() };
    Ok(Some(Run { data: Arc::new(data), frozen: None, data_digest: Some(data_digest), ..run.clone() }))
}

/// As [`computed`], for one split.
///
/// # Errors
///
/// As [`computed`].
pub(crate) fn stored_split(
    part: &FrozenPart,
    run: &Run,
    backend: &dyn Backend,
    split: &Split,
    progress: &mut dyn Progress,
) -> Result<Split, TrainError> {
    let samples: Vec<u32> = split.held().unwrap_or(0..split.len()).map(|row| row as u32).collect();
    let mut values = vec![];
    for spec in &part.stored {
        let (mut all, length) = (vec![], samples.len() * spec.elements(1));
        all.try_reserve_exact(length).map_err(|_| {
            TrainError::Run("there is no memory for the frozen part's values; leave out `cache_frozen`".into())
        })?;
        all.resize(length, 0.0f32);
        values.push(all);
    }
    compute(part, run, backend, split, &samples, &mut values, progress)?;
    let read = part.read.iter().map(|at| split.features()[*at].clone());
    let stored = part.stored.iter().zip(values).map(|(spec, values)| Features {
        // Without the samples' axis.
        shape: spec
            .shape
            .iter()
            .filter_map(|dim| if let Dim::Fixed(extent) = dim { Some(*extent) } else { None })
            .collect(),
        values: Numbers::F32(values),
    });
    Ok(split.with_features(read.chain(stored).collect()))
}

/// A chunk of the samples, and the places of its values.
struct Job<'a> {
    samples: &'a [u32],
    to: Vec<&'a mut [f32]>,
}

/// Computes the stored `values` of `samples`, each worker chunk by chunk.
fn compute(
    part: &FrozenPart,
    run: &Run,
    backend: &dyn Backend,
    split: &Split,
    samples: &[u32],
    values: &mut [Vec<f32>],
    progress: &mut dyn Progress,
) -> Result<(), TrainError> {
    let rows = run.model.physical_batch;
    let widths = part.stored.iter().map(|spec| spec.elements(rows.get()).max(1));
    let mut parts: Vec<_> = values.iter_mut().zip(widths).map(|(all, width)| all.chunks_mut(width)).collect();
    let jobs = chunks(samples, rows).map(|chunk| Job {
        samples: chunk.samples,
        to: parts.iter_mut().map(|part| part.next().unwrap_or_default()).collect(),
    });
    let jobs: Vec<Job<'_>> = jobs.collect();
    let all = jobs.len();
    let (jobs, stop) = (Mutex::new(jobs.into_iter()), AtomicBool::new(false));
    let plan = plan(part, rows);
    let sessions =
        (0..run.threads().min(all)).map(|_| backend.load(&part.model, &plan)).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        for mut session in sessions {
            let (jobs, stop, done) = (&jobs, &stop, done.clone());
            scope.spawn(move || {
                let mut batch = Batch::new(split, rows);
                while let Some(job) = next(jobs).filter(|_| !stop.load(Ordering::Relaxed)) {
                    let result = one(session.as_mut(), part, &mut batch, split, job);
                    // The receiver outlives all senders.
                    let _ = done.send(result);
                }
            });
        }
        drop(done);
        let mut ended = Ok(());
        for (count, result) in finished.iter().enumerate() {
            progress.on_event(RunEvent::ComputedOnce { share: (count + 1) as f64 / all as f64 });
            if ended.is_ok() && (result.is_err() || progress.stop()) {
                stop.store(true, Ordering::Relaxed);
                ended = result.map_err(TrainError::from).and(Err(TrainError::Stopped));
            }
        }
        ended
    })
}

fn next<'a>(jobs: &Mutex<IntoIter<Job<'a>>>) -> Option<Job<'a>> {
    jobs.lock().ok()?.next()
}

/// Computes one chunk.
fn one(
    session: &mut dyn Session,
    part: &FrozenPart,
    batch: &mut Batch,
    split: &Split,
    job: Job<'_>,
) -> Result<(), BackendError> {
    let chunk = Chunk { index: 0, samples: job.samples };
    batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
    let inputs: Vec<TensorRef<'_>> = (0..part.inputs.len()).map(|input| batch.features(input)).collect();
    let mut to = job.to;
    session.run(&inputs, &mut |outputs| {
        for (to, from) in to.iter_mut().zip(outputs) {
            to.copy_from_slice(&from[..to.len()]);
        }
    })
}

fn plan(part: &FrozenPart, rows: NonZeroUsize) -> SessionSpec {
    SessionSpec { batch: rows.get(), threads: 1, inputs: part.inputs.clone(), outputs: part.stored.clone() }
}

/// Goes through the frozen part on made-up samples as a run's gradients are: the result of both.
///
/// # Errors
///
/// The backend cannot run the part, or computes it wrong.
pub(crate) fn rehearsed(run: &Run, backend: &dyn Backend, gradients: Rehearsed) -> Result<Rehearsed, BackendError> {
    let Some(part) = &run.frozen else { return Ok(gradients) };
    let plan = plan(part, run.model.physical_batch);
    let made = made_up_data(&plan);
    backend.self_test(&part.model, &plan, &made.iter().map(Made::input).collect::<Vec<_>>())?;
    let found = independence_of(backend, &part.model, &plan, &|| made_up_data(&plan))?;
    Ok(match found.independence {
        Independence::Refuted => Rehearsed { none_is_finite: gradients.none_is_finite, ..found },
        _ => gradients,
    })
}
