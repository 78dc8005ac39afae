//! The loop: draw, gradients, pay, release, again.

use super::choice::{AnyClip, AnyFilter, AnyFilterState, AnyOptimizer, AnyState, AnyThreshold, AnyThresholdState};
use super::evaluate::Evaluator;
use super::galore::forms;
use super::recording::{Origin, Recording};
use super::rehearsal::rehearse;
use super::sampler::Draws;
use super::store::LedgerFile;
use super::worker::{ClippedSums, Gather, Layout, OUTPUTS, PerSampleGradients, Point, SUMS};
use super::{Evaluation, Noise, Outcome, Progress, Run, StepReport, TrainError};
use crate::accounting::{Recorded, Sampler};
use crate::backend::{Backend, open};
use crate::data::{Chunk, chunks};
use damper_core::accounting::Ledger;
use damper_core::error::OpenError;
use damper_core::grid::Grid;
use damper_core::noise::{self, ContinuousGaussian, DiscreteGaussian, Key};
use damper_core::private::Mechanism;
use damper_core::schedule::Declared;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Threshold;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps paid for at a time: a crash burns at most so many.
const PREPAID: u32 = 64;

/// Blocks of key stream made at once: from sixteen on they are made in vectors, in less than half the time. The words are the
/// same.
const BLOCKS: usize = 16;

/// The generator of a run.
type ChaCha20 = noise::ChaCha20<BLOCKS>;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// What a run writes as it goes, as secret as the data.
struct Written {
    ledger: LedgerFile,
    recording: Option<Recording>,
}

/// Trains. `checkpoint` is a private folder that is there; the ledger is persisted in it.
///
/// # Errors
///
/// The backend is absent or fails, the ledger or the recording cannot be written, or the operating system gives no key.
pub fn run(run: &Run, checkpoint: &Path, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
    let mut key = [0; 32];
    let (generator, origin) = match run.config.seed {
        Some(seed) => (ChaCha20::simulation(seed), Origin::Seed(seed)),
        None => {
            getrandom::fill(&mut key).map_err(TrainError::Key)?;
            (ChaCha20::private(Key::from_bytes(&key)), Origin::Key(&key))
        }
    };
    let backend = open(run.config.backend)?;
    progress.backend(&backend.note());
    let grid = Grid::new(run.config.grid_bits)?;
    let backend = backend.as_ref();
    let rows = run.physical_batch;
    let threads = run.config.workers.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let split = &run.data.train;
    match &run.clipped {
        Some(clipped) => rehearse(backend, clipped, &SUMS, rows, &run.params)?,
        None => rehearse(backend, &run.grad, &OUTPUTS, rows, &run.params)?,
    }
    let written =
        Written { ledger: LedgerFile::new(checkpoint.join("ledger.json")), recording: Recording::begin(run, origin)? };
    let continuous = || ContinuousGaussian::new(run.multiplier);
    match (run.config.noise, run.sigma_grid, &run.clipped) {
        (Noise::Discrete, Some(sigma), None) => {
            let workers = PerSampleGradients::new(backend, &run.grad, split, rows, threads)?;
            train(run, DiscreteGaussian::<i64>::new(grid, sigma)?, workers, &generator, backend, written, progress)
        }
        (_, _, Some(clipped)) => {
            let workers = ClippedSums::new(backend, clipped, split, rows, threads)?;
            train(run, continuous()?, workers, &generator, backend, written, progress)
        }
        _ => {
            let workers = PerSampleGradients::new(backend, &run.grad, split, rows, threads)?;
            train(run, continuous()?, workers, &generator, backend, written, progress)
        }
    }
}

fn train<M: Mechanism>(
    run: &Run,
    mechanism: M,
    mut workers: impl Gather<M>,
    generator: &ChaCha20,
    backend: &dyn Backend,
    mut written: Written,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let config = &run.config;
    let layout = Layout::new(&run.grad);
    let dim = layout.dim();
    let method = &config.method;
    let layers = method.clipping.layers(layout.lengths());
    let (filter, filter_state) = method.filter.build(dim)?;
    let (threshold, threshold_state) = method.threshold.build()?;
    let (optimizer, optimizer_state) = config.optimizer.build(&forms(&run.grad))?;
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: method.clipping.build(&layers)?,
        threshold,
        filter,
        optimizer,
        schedule: Declared { learning_rate: run.learning_rate, noise: method.noise_schedule },
        expected_batch: config.batch_size,
    })?;
    let mut state = StepState {
        sum: vec![M::Word::default(); dim],
        filter: filter_state,
        threshold: threshold_state,
        optimizer: optimizer_state,
    };
    let mut params = run.params.clone();
    let mut ledger = Ledger::new(run.steps).prepaying(PREPAID);

    let mut evaluator = match &run.data.test {
        Some(split) => Some((Evaluator::new(backend, run, split)?, split)),
        None => None,
    };

    let epoch_of = |step: u32| f64::from(step) * run.rate.as_f64();
    let evaluate_every = config.evaluate_every.map(|epochs| ((epochs / run.rate.as_f64()).round() as u32).max(1));
    let mut evaluations = Vec::new();
    let mut draws = Draws::new(run);
    let mut draw = Vec::new();
    let mut points = Vec::new();
    let mut spent = run.plan.spent(config.accountant, run.plan_delta)?;
    let started = Instant::now();
    let mut told = started;
    for done in 1..=run.steps {
        one_step(
            run,
            &step,
            &mut state,
            &mut ledger,
            &mut written,
            &mut workers,
            &mut draws,
            &mut draw,
            &mut points,
            &mut params,
            generator,
        )?;
        if let Some(steps) = draws.event(done - 1) {
            let events = steps.map(|at| step.event_at(at, run.priced_rate())).collect::<Result<Vec<_>, _>>()?;
            if let Some(least) = events.into_iter().min_by(|a, b| a.multiplier().total_cmp(&b.multiplier())) {
                spent.count(&least);
            }
        }

        if told.elapsed() >= TICK || done == run.steps {
            told = Instant::now();
            let seconds = started.elapsed().as_secs_f64();
            progress.step(&StepReport {
                step: done,
                steps: run.steps,
                seconds,
                samples_per_second: f64::from(done) * f64::from(config.batch_size) / seconds,
                epsilon: spent.epsilon(),
            });
        }
        if let Some((evaluator, split)) = &mut evaluator
            && (done == run.steps || evaluate_every.is_some_and(|every| done % every == 0))
        {
            let (loss, accuracy) = evaluator.evaluate(split, &layout, &params)?;
            let epsilon = if done == run.steps { run.epsilon } else { spent.least_epsilon() };
            let at = Evaluation { step: done, epoch: epoch_of(done), epsilon, loss, accuracy };
            progress.evaluated(&at);
            evaluations.push(at);
        }
    }
    if let Some(recording) = written.recording {
        recording.finish()?;
    }
    Ok(Outcome {
        params,
        steps: ledger.paid(),
        recorded: Recorded {
            sampler: config.sampler,
            steps: (config.sampler == Sampler::Shuffled).then_some(u64::from(run.steps)),
            truncation: run.truncation,
            ..Recorded::new(config.accountant, config.delta, spent.events())
        },
        seconds: started.elapsed().as_secs_f64(),
        evaluations,
        backend: backend.name(),
        backend_version: backend.version(),
        workers: workers.count(),
        clip: step.slots().threshold.clip(&state.threshold),
    })
}

type Step<'a, M> = PrivateStep<M, AnyClip<'a>, AnyThreshold, AnyFilter, AnyOptimizer, Declared>;
type State<M> = StepState<Vec<<M as Mechanism>::Word>, AnyFilterState, AnyThresholdState, AnyState>;

/// Pays for a step, draws its batch, spreads it over the workers, releases. `draw` and `points` are memory.
#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn one_step<M: Mechanism>(
    run: &Run,
    step: &Step<'_, M>,
    state: &mut State<M>,
    ledger: &mut Ledger,
    written: &mut Written,
    workers: &mut impl Gather<M>,
    draws: &mut Draws,
    draw: &mut Vec<u32>,
    points: &mut Vec<Point>,
    params: &mut [f32],
    generator: &ChaCha20,
) -> Result<(), TrainError> {
    let mut opened = step.open(state, ledger, &mut written.ledger).map_err(|error| match error {
        OpenError::Store(error) => TrainError::File(error),
        // The budget is the number of steps of the loop, and the state was made for the graph.
        OpenError::BudgetSpent | OpenError::Call(_) => TrainError::Flag(format!("the step did not open: {error}")),
    })?;
    let split = &run.data.train;
    draws.draw(generator, opened.number(), draw);
    let all: Vec<Chunk<'_>> = chunks(draw, run.physical_batch).collect();
    points.resize_with(opened.points(), Point::default);
    for (index, point) in points.iter_mut().enumerate() {
        point.params.resize(params.len(), 0.0);
        point.weight = opened.point(index, params, &mut point.params).expect("the points have the parameters' length");
    }
    if let Some(recording) = &mut written.recording {
        recording.step(draw.iter().filter(|sample| !split.is_null(**sample as usize)).count() as u32);
    }
    workers.gather(&mut opened, split, &all, points, written.recording.as_mut())?;
    opened.finish(params, generator).expect("the parameters have the state's length");
    if let Some(recording) = &mut written.recording {
        let slots = step.slots();
        recording.released(
            params,
            (&slots.filter, &state.filter),
            (&slots.optimizer, &state.optimizer),
            (&slots.threshold, &state.threshold),
        )?;
    }
    Ok(())
}
