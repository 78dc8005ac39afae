//! The loop: draw, gradients, pay, release, again.

use super::choice::{AnyOptimizer, AnyState};
use super::course::{self, ChaCha20, Course, Draw, State, Step, Sum};
use super::evaluate::Evaluator;
use super::recording::{Origin, Recording};
use super::sampler::Draws;
use super::store::LedgerFile;
use super::worker::{Gather, Layout, Witness};
use super::{Evaluation, Outcome, Progress, Run, StepReport, TrainError};
use crate::accounting::{Recorded, Sampler};
use crate::backend::{Backend, open};
use damper_core::accounting::Ledger;
use damper_core::error::OpenError;
use damper_core::private::Mechanism;
use damper_core::threshold::Threshold;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps paid for at a time: a crash burns at most so many.
const PREPAID: u32 = 64;

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
    let generator = course::generator(run.config.seed, &mut key)?;
    let origin = run.config.seed.map_or(Origin::Key(&key), Origin::Seed);
    let backend = open(run.config.backend)?;
    progress.backend(&backend.note());
    let written =
        Written { ledger: LedgerFile::new(checkpoint.join("ledger.json")), recording: Recording::begin(run, origin)? };
    let training = Training { run, generator: &generator, backend: backend.as_ref(), written, progress };
    course::go(run, backend.as_ref(), training)
}

/// Training, on its way to an outcome.
struct Training<'a> {
    run: &'a Run,
    generator: &'a ChaCha20,
    backend: &'a dyn Backend,
    written: Written,
    progress: &'a mut dyn Progress,
}

impl Course for Training<'_> {
    type End = Outcome;

    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Outcome, TrainError>
    where
        M: Mechanism<Word: Send> + Send + Sync,
        G: Gather<M>,
        Sum: From<Vec<M::Word>>,
    {
        let Self { run, generator, backend, written, progress } = self;
        train(run, mechanism, workers, generator, backend, written, progress)
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
    let layers = course::layers(run);
    let (step, mut state) = course::step(run, mechanism, &layers, |optimizer, state| (optimizer, state))?;
    let mut params = run.params.clone();
    let mut ledger = Ledger::new(run.steps).prepaying(PREPAID);

    let mut evaluator = match &run.data.test {
        Some(split) => Some((Evaluator::new(backend, run, split)?, split)),
        None => None,
    };

    let epoch_of = |step: u32| f64::from(step) * run.rate.as_f64();
    let evaluate_every = config.evaluate_every.map(|epochs| ((epochs / run.rate.as_f64()).round() as u32).max(1));
    let mut evaluations = Vec::new();
    let mut draws = Draws::new(run, run.data.train.len() as u32);
    let mut draw = Draw::default();
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

/// Pays for a step, draws its batch, spreads it over the workers, releases. `draw` is memory.
#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn one_step<M: Mechanism>(
    run: &Run,
    step: &Step<'_, M, AnyOptimizer>,
    state: &mut State<M, AnyState>,
    ledger: &mut Ledger,
    written: &mut Written,
    workers: &mut impl Gather<M>,
    draws: &mut Draws,
    draw: &mut Draw,
    params: &mut [f32],
    generator: &ChaCha20,
) -> Result<(), TrainError> {
    let mut opened = step.open(state, ledger, &mut written.ledger).map_err(|error| match error {
        OpenError::Store(error) => TrainError::File(error),
        // The budget is the number of steps of the loop, and the state was made for the graph.
        OpenError::BudgetSpent | OpenError::Call(_) => TrainError::Flag(format!("the step did not open: {error}")),
    })?;
    let split = &run.data.train;
    draws.draw(generator, opened.number(), &mut draw.samples);
    if let Some(recording) = &mut written.recording {
        recording.step(draw.counted(split));
    }
    let witness = written.recording.as_mut().map(|recording| recording as &mut dyn Witness);
    draw.gather(run, &mut opened, split, workers, params, witness)?;
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
