//! The values of the frozen parts, computed once for all samples.
//!
//! # Privacy
//!
//! The values are as secret as the data. They exist only in memory, for the duration of the run. A sample's values
//! follow from that sample and public weights, in the physical batch shape of the run, or alone. All samples are
//! computed before the first step, drawn or not. So the duration of a step does not depend on whether a sample is new.
//! If the number of samples is hidden, the listener gets no progress about it.

mod alone;

use crate::engine::rehearsal::{Independence, Made, Rehearsed, independence, made_up_data};
use crate::engine::worker::threads;
use crate::plan::graphs::frozen::{check_size, splits};
use crate::plan::inputs::fixed;
use crate::state::data_digest::data_digest;
use crate::{ModelAndData, Progress, Run, RunEvent, TrainError};
use damper_data::{Batch, Chunk, Dataset, Features, Numbers, Split, chunks};
use damper_grad::FrozenPart;
use damper_onnx::{TensorRef, TensorSpec};
use damper_runtime::{Backend, BackendError, Session, SessionSpec, WrittenSession};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::vec::IntoIter;

/// Returns `run` with the values of its frozen parts as data. Returns `None` if it has no frozen part, or if the values
/// are already computed.
///
/// # Errors
///
/// The backend fails, the values do not fit into memory, or the listener stops the run.
pub(crate) fn computed(
    run: &Run,
    backend: &dyn Backend,
    progress: &mut dyn Progress,
) -> Result<Option<Run>, TrainError> {
    if run.frozen.is_empty() {
        return Ok(None);
    }
    run.frozen.iter().try_for_each(|part| check_size(part, run))?;
    let data_digest = run.data_digest.clone().map_or_else(|| data_digest(&run.data), Ok)?;
    let mut data = run.data.clone();
    for (index, part) in run.frozen.iter().enumerate() {
        let of_run = Run { data: data.clone(), ..run.clone() };
        let chunks: usize = splits(&of_run).map(|split| Course::chunks(part, rows(run), split)).sum();
        let all = run.config.dataset_size.is_none().then_some((index * chunks, run.frozen.len() * chunks));
        let mut course = Course::new(part, rows(run), run.threads(), all, backend, progress)?;
        let mut of_split =
            splits(&of_run).map(|split| course.of_split(split)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let (Some(train), test) = (of_split.next(), of_split.next()) else { return Ok(None) };
        let Dataset { sample, names, notes, .. } = &*run.data;
        data = Arc::new(Dataset { train, test, sample, names: names.clone(), notes: notes.clone() });
    }
    Ok(Some(Run { data, frozen: vec![], data_digest: Some(data_digest), ..run.clone() }))
}

/// Returns `split` as the graphs of `run` read it, with the values of the frozen parts. Returns `None` if the run has
/// no frozen part, or if the values are already computed.
///
/// # Errors
///
/// As [`computed`].
pub(crate) fn of_split(run: &Run, backend: &dyn Backend, split: &Split) -> Result<Option<Split>, TrainError> {
    let mut computed = None;
    for part in &run.frozen {
        let split = computed.as_ref().unwrap_or(split);
        computed = Some(Course::new(part, rows(run), run.threads(), None, backend, &mut ())?.of_split(split)?);
    }
    Ok(computed)
}

/// Returns the training rows of `read` with the values of its frozen part, if that has operators without a rule.
///
/// # Errors
///
/// As [`computed`].
pub fn of_opaque(
    read: &ModelAndData,
    backend: &dyn Backend,
    workers: Option<NonZeroUsize>,
    progress: &mut dyn Progress,
) -> Result<Option<Split>, TrainError> {
    let Some(part) = &read.opaque else { return Ok(None) };
    let split = &read.data.train;
    alone::rehearse(part, 1, backend)?;
    let all = Some((0, Course::chunks(part, NonZeroUsize::MIN, split)));
    Course::new(part, NonZeroUsize::MIN, threads(workers), all, backend, progress)?.of_split(split).map(Some)
}

/// Number of rows that the parts of `run` process at once, unless they take one sample at a time.
fn rows(run: &Run) -> NonZeroUsize {
    run.model.physical_batch
}

/// Number of rows that `part` processes at once, of `rows`.
fn at_once(part: &FrozenPart, rows: NonZeroUsize) -> NonZeroUsize {
    if part.is_opaque { NonZeroUsize::MIN } else { rows }
}

/// A pass over all samples.
struct Course<'a> {
    part: &'a FrozenPart,
    rows: NonZeroUsize,
    sessions: Vec<Loaded>,
    progress: &'a mut dyn Progress,
    done: usize,
    /// The total number of chunks. `None` if it is hidden.
    all: Option<usize>,
}

/// A session for the part.
enum Loaded {
    /// Of batches.
    Batches(Box<dyn Session>),
    /// Of one sample at a time.
    Alone(Box<dyn WrittenSession>),
}

/// A chunk of samples, and the destination of its values.
struct Job<'a> {
    samples: &'a [u32],
    to: Vec<&'a mut [f32]>,
}

impl<'a> Course<'a> {
    /// Loads sessions for `threads` workers. `all` has the number of chunks done before, and of all chunks.
    fn new(
        part: &'a FrozenPart,
        rows: NonZeroUsize,
        threads: usize,
        all: Option<(usize, usize)>,
        backend: &dyn Backend,
        progress: &'a mut dyn Progress,
    ) -> Result<Self, TrainError> {
        let rows = at_once(part, rows);
        // A device runs one session at a time.
        let count = if backend.host_nodes().is_some() { 1 } else { threads };
        let load = |_| -> Result<Loaded, TrainError> {
            Ok(match part.is_opaque {
                true => Loaded::Alone(alone::load(part, backend)?),
                false => Loaded::Batches(backend.load(&part.model, &plan(part, rows))?),
            })
        };
        let sessions = (0..count).map(load).collect::<Result<_, _>>()?;
        let (done, all) = all.unzip();
        Ok(Self { part, rows, sessions, progress, done: done.unwrap_or_default(), all })
    }

    /// Number of chunks of `split`.
    fn chunks(part: &FrozenPart, rows: NonZeroUsize, split: &Split) -> usize {
        split.rows_held().len().div_ceil(at_once(part, rows).get())
    }

    /// Returns `split` with stored values as its features.
    fn of_split(&mut self, split: &Split) -> Result<Split, TrainError> {
        let samples: Vec<u32> = split.rows_held().map(|row| row as u32).collect();
        let zeros = |spec: &TensorSpec| -> Result<Vec<f32>, TrainError> {
            let (mut all, length) = (vec![], samples.len() * spec.elements(1));
            all.try_reserve_exact(length).map_err(|_| {
                let remedy = if self.part.is_opaque { "give the run more memory" } else { "leave out `cache_frozen`" };
                TrainError::Run(format!("there is no memory for the frozen part's values; {remedy}"))
            })?;
            all.resize(length, 0.0);
            Ok(all)
        };
        let mut values = self.part.stored.iter().map(zeros).collect::<Result<Vec<_>, _>>()?;
        self.compute(split, &samples, &mut values)?;
        let read = self.part.read.iter().map(|at| split.features()[*at].clone());
        let stored = self
            .part
            .stored
            .iter()
            .zip(values)
            .map(|(spec, values)| Features { shape: fixed(spec), values: Numbers::F32(values) });
        Ok(split.with_features(read.chain(stored).collect()))
    }

    /// Computes the stored `values` of `samples`. Each worker takes chunk after chunk.
    fn compute(&mut self, split: &Split, samples: &[u32], values: &mut [Vec<f32>]) -> Result<(), TrainError> {
        let Self { part, rows, sessions, .. } = self;
        let (part, rows) = (*part, *rows);
        let widths = part.stored.iter().map(|spec| spec.elements(rows.get()).max(1));
        let mut parts: Vec<_> = values.iter_mut().zip(widths).map(|(all, width)| all.chunks_mut(width)).collect();
        let jobs: Vec<Job<'_>> = chunks(samples, rows)
            .map(|chunk| {
                let to = parts.iter_mut().map(|part| part.next().unwrap_or_default()).collect();
                Job { samples: chunk.samples, to }
            })
            .collect();
        let (jobs, stop) = (Mutex::new(jobs.into_iter()), AtomicBool::new(false));
        let mut sessions = std::mem::take(sessions);
        let mut ended = Ok(());
        let work = |session: &mut Loaded, report: &mut dyn FnMut(Result<(), BackendError>)| {
            let mut batch = Batch::new(split, rows);
            while let Some(job) = next(&jobs).filter(|_| !stop.load(Ordering::Relaxed)) {
                report(one(session, part, &mut batch, split, job));
            }
        };
        if let [session] = &mut sessions[..] {
            work(session, &mut |result| self.heard(result, &mut ended, &stop));
        } else {
            std::thread::scope(|scope| {
                let (done, finished) = mpsc::channel();
                for session in &mut sessions {
                    let done = done.clone();
                    let work = &work;
                    // The receiver outlives all senders.
                    scope.spawn(move || work(session, &mut |result| drop(done.send(result))));
                }
                drop(done);
                finished.iter().for_each(|result| self.heard(result, &mut ended, &stop));
            });
        }
        self.sessions = sessions;
        ended
    }

    /// Handles the result of a chunk.
    fn heard(&mut self, result: Result<(), BackendError>, ended: &mut Result<(), TrainError>, stop: &AtomicBool) {
        self.done += 1;
        if let Some(all) = self.all {
            self.progress.on_event(RunEvent::ComputedOnce { share: self.done as f64 / all as f64 });
        }
        if ended.is_ok() && (result.is_err() || self.progress.stop()) {
            stop.store(true, Ordering::Relaxed);
            *ended = result.map_err(TrainError::from).and(Err(TrainError::Stopped));
        }
    }
}

fn next<'a>(jobs: &Mutex<IntoIter<Job<'a>>>) -> Option<Job<'a>> {
    jobs.lock().ok()?.next()
}

/// Computes one chunk.
fn one(
    session: &mut Loaded,
    part: &FrozenPart,
    batch: &mut Batch,
    split: &Split,
    job: Job<'_>,
) -> Result<(), BackendError> {
    let chunk = Chunk { index: 0, samples: job.samples };
    batch.fill(split, chunk).map_err(|error| BackendError(error.to_string()))?;
    let inputs: Vec<TensorRef<'_>> = (0..part.inputs.len()).map(|input| batch.features(input)).collect();
    let mut to = job.to;
    let session = match session {
        Loaded::Batches(session) => session,
        Loaded::Alone(session) => {
            alone::compute(session.as_mut(), part, &inputs, &mut to);
            return Ok(());
        }
    };
    session.run(&inputs, &mut |outputs| {
        for (to, from) in to.iter_mut().zip(outputs) {
            to.copy_from_slice(&from[..to.len()]);
        }
    })
}

fn plan(part: &FrozenPart, rows: NonZeroUsize) -> SessionSpec {
    SessionSpec { batch: rows.get(), threads: 1, inputs: part.inputs.clone(), outputs: part.stored.clone() }
}

/// Does the dry run of the frozen parts on synthetic samples, as a run does for its gradients. Returns the values of
/// these samples, in the order of the inputs of the rest of the network, and the result of the independence test.
/// Returns `None` if the run has no frozen part.
///
/// # Errors
///
/// The values of all samples exceed the limit, or the backend cannot run a part or computes it wrong.
pub(crate) fn rehearse(run: &Run, backend: &dyn Backend) -> Result<Option<(Vec<Made>, Rehearsed)>, TrainError> {
    let mut rehearsed: Option<(Vec<Made>, Rehearsed)> = None;
    for part in &run.frozen {
        check_size(part, run)?;
        let before = rehearsed.take();
        let (values, found) = match part.is_opaque {
            true => {
                let (made, stored) = alone::rehearse(part, rows(run).get(), backend)?;
                (
                    read_by_rest(part, made, stored),
                    Rehearsed { independence: Independence::Tested, ..Rehearsed::default() },
                )
            }
            false => rehearse_batches(part, rows(run), backend, before.as_ref().map(|(values, _)| &values[..]))?,
        };
        let of_both = before.map(|(_, of_before)| both(Some(of_before), found.clone()));
        rehearsed = Some((values, of_both.unwrap_or(found)));
    }
    Ok(rehearsed)
}

/// Does the dry run of a part that takes batches, on synthetic samples or on the values that a part before it has for
/// them.
fn rehearse_batches(
    part: &FrozenPart,
    rows: NonZeroUsize,
    backend: &dyn Backend,
    before: Option<&[Made]>,
) -> Result<(Vec<Made>, Rehearsed), TrainError> {
    let plan = plan(part, rows);
    let make = || before.map_or_else(|| made_up_data(&plan), <[Made]>::to_vec);
    let made = make();
    let inputs: Vec<_> = made.iter().map(Made::input).collect();
    backend.self_test(&part.model, &plan, &inputs)?;
    let found = independence(backend, &part.model, &plan, &make)?;
    let mut stored = vec![];
    backend.load(&part.model, &plan)?.run(&inputs, &mut |outputs| {
        stored = outputs.iter().map(|values| Made::F32(values.to_vec())).collect();
    })?;
    Ok((read_by_rest(part, made, stored), found))
}

/// Values of the inputs of the rest of the network: the inputs of `part` that it reads too, then the stored values.
fn read_by_rest(part: &FrozenPart, inputs: Vec<Made>, stored: Vec<Made>) -> Vec<Made> {
    let mut inputs: Vec<Option<Made>> = inputs.into_iter().map(Some).collect();
    let read = part.read.iter().filter_map(|at| inputs[*at].take());
    read.chain(stored).collect()
}

/// Returns the result for both parts: that of `frozen` if its samples depend on each other, otherwise that of
/// `gradients`.
pub(crate) fn both(frozen: Option<Rehearsed>, gradients: Rehearsed) -> Rehearsed {
    match frozen {
        Some(frozen) if frozen.independence == Independence::Refuted => {
            Rehearsed { none_is_finite: gradients.none_is_finite, ..frozen }
        }
        _ => gradients,
    }
}
