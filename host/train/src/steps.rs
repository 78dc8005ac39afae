//! The loop: draw, gradients, pay, release, again.

use super::choice::{AnyOptimizer, AnyState};
use super::evaluate::Evaluator;
use super::held_out::steps_between;
use super::observe::{Given, Observer, Summed};
use super::odometer::Odometer;
use super::recording::{Origin, Recording};
use super::rehearsal::{Independence, independence};
use super::run_plan::RunPlan;
use super::sampler::BatchSampler;
use super::step_loop::{self, ChaCha20, Draw, State, StepLoop, Sum};
use super::store::{LedgerFile, RESERVE};
use super::watched::{GradientWatch, ThresholdWatch, Watched, WatchedState};
use super::worker::{Accumulate, GradientObserver, Layout, OUTPUTS, Step};
use super::{Evaluation, Outcome, Progress, Run, StepReport, TestMetrics, TrainError};
use crate::files::FileError;
use damper_accounting::{Recorded, RecordedEvent, Sampler};
use damper_core::accounting::{Event, Ledger};
use damper_core::average::{Average, Averaging};
use damper_core::error::{ConfigError, OpenError};
use damper_core::mutant::{self, Mutant};
use damper_core::private::Mechanism;
use damper_core::threshold::Threshold;
use damper_data::Labels;
use damper_runtime::{Backend, open};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// What a run writes as it goes, as secret as the data.
struct Written<'a> {
    checkpoint: &'a Path,
    plan: RunPlan,
    ledger: Ledger<LedgerFile>,
    /// The ledger of releases from held-out rows.
    evaluations: Ledger<LedgerFile>,
    recording: Option<Recording>,
}

/// Trains. `checkpoint` is a private folder that is there; the plan and the ledger are persisted in it, the plan before the first
/// step is charged and the ledger before each charge's first release.
///
/// # Errors
///
/// The backend is absent or fails, the ledger or the recording cannot be written, or the operating system gives no key.
pub fn run(run: &Run, checkpoint: &Path, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
    observed(run, checkpoint, progress, None)
}

/// [`run`], seen from the inside.
pub(crate) fn observed(
    run: &Run,
    checkpoint: &Path,
    progress: &mut dyn Progress,
    observer: Option<&mut dyn Observer>,
) -> Result<Outcome, TrainError> {
    damper_core::self_test()?;
    let mut key = step_loop::key(run.config.seed)?;
    let origin = run.config.seed.map_or(Origin::Key(&key), Origin::Seed);
    let backend = open(run.config.backend)?;
    progress.backend(&backend.note());
    let independence = match &run.clipped {
        None => independence(backend.as_ref(), &run.grad, &OUTPUTS, run.physical_batch, &run.params)?,
        Some(_) => Independence::NotTested,
    };
    let plan = RunPlan::new(run)?;
    let ledger = Ledger::resume(LedgerFile::new(checkpoint, &plan), run.terms.steps, 0).with_reserve(RESERVE);
    let releases = run.private_metrics.as_ref().map_or(0, |metrics| metrics.releases);
    let evaluations = LedgerFile::of_held_out(checkpoint, &plan);
    let evaluations = Ledger::resume(evaluations, releases, 0).with_reserve(releases);
    let written = Written { checkpoint, plan, ledger, evaluations, recording: Recording::begin(run, origin)? };
    let generator = step_loop::generator(run.config.seed, &mut key);
    let training = Training { run, generator: &generator, backend: backend.as_ref(), written, progress, observer };
    Ok(Outcome { independence, ..step_loop::go(run, backend.as_ref(), training)? })
}

/// Training, on its way to an outcome.
struct Training<'a, 'o> {
    run: &'a Run,
    generator: &'a ChaCha20,
    backend: &'a dyn Backend,
    written: Written<'a>,
    progress: &'a mut dyn Progress,
    observer: Option<&'o mut dyn Observer>,
}

impl StepLoop for Training<'_, '_> {
    type End = Outcome;

    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Outcome, TrainError>
    where
        M: Mechanism<Word: Send> + Send + Sync,
        G: Accumulate<M>,
        Sum: From<Vec<M::Word>>,
    {
        let Self { run, generator, backend, written, progress, observer } = self;
        train(run, mechanism, workers, generator, backend, written, progress, observer)
    }
}

#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn train<M: Mechanism>(
    run: &Run,
    mechanism: M,
    mut workers: impl Accumulate<M>,
    generator: &ChaCha20,
    backend: &dyn Backend,
    mut written: Written<'_>,
    progress: &mut dyn Progress,
    mut observer: Option<&mut dyn Observer>,
) -> Result<Outcome, TrainError>
where
    Sum: From<Vec<M::Word>>,
{
    let config = &run.config;
    let layout = Layout::new(&run.grad);
    let layers = step_loop::layers(run);
    let (step, mut state) = step_loop::step(run, mechanism, &layers, |optimizer, state| {
        (Watched(optimizer), WatchedState { inner: state, watch: None })
    })?;
    if observer.is_some() {
        let (_, shadow) = config.method.threshold.build_counting(config.method.count_non_finite)?;
        state.optimizer.watch = Some(GradientWatch::new(run.params.len()));
        state.threshold.watch = Some(ThresholdWatch { counts: vec![], shadow });
    }
    let mut params = run.params.clone();
    let mut average = Average::new(vec![0.0; if config.average.is_some() { params.len() } else { 0 }]);

    let mut evaluator = match &run.data.test {
        Some(split) if config.test_metrics != TestMetrics::None => Some((Evaluator::new(backend, run, split)?, split)),
        _ => None,
    };

    let epoch_of = |step: u32| f64::from(step) * run.terms.rate.as_f64();
    let evaluate_every = steps_between(config, run.terms.rate);
    let mut evaluations = Vec::new();
    let mut draws = BatchSampler::new(run, run.data.train.len() as u32);
    let mut draw = Draw::default();
    // What a step adds to the price: a draw's event, or at the first step of an epoch the epoch's.
    let event = |draws: &BatchSampler, at: u32| -> Result<Option<Event>, ConfigError> {
        let steps = draws.event(at).into_iter().flatten();
        let events = steps.map(|at| step.event_at(at, run.priced_rate())).collect::<Result<Vec<_>, _>>()?;
        Ok(events.into_iter().min_by(|a, b| a.multiplier().total_cmp(&b.multiplier())))
    };
    let mut spent = Odometer::new(run)?;
    written.plan.write(written.checkpoint)?;
    let started = Instant::now();
    let mut told = started;
    for done in 1..=run.terms.steps {
        one_step(
            run,
            &step,
            &mut state,
            &mut written,
            &mut workers,
            &mut draws,
            &mut draw,
            &mut params,
            generator,
            observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer),
        )?;
        in_range(done, &params)?;
        if !(mutant::is(Mutant::EventsFewer) && done % 10 == 0) {
            spent.count(event(&draws, done - 1)?);
        }

        let weigh =
            |averaging: Averaging| averaging.weight(done - 1, run.terms.steps, run.terms.learning_rate.at(done - 1));
        if let Some(weight) = config.average.and_then(weigh) {
            average.add(&params, weight).expect("the mean has the parameters' length, and rates are finite");
        }
        if told.elapsed() >= TICK || done == run.terms.steps {
            told = Instant::now();
            let seconds = started.elapsed().as_secs_f64();
            let at = StepReport {
                step: done,
                steps: run.terms.steps,
                seconds,
                samples_per_second: f64::from(done) * f64::from(config.batch_size) / seconds,
            };
            progress.step(&at, &mut |first| spent.of_first(first, |at| event(&draws, at)));
        }
        if let Some((evaluator, split)) = &mut evaluator
            && (done == run.terms.steps || evaluate_every.is_some_and(|every| done % every == 0))
        {
            let evaluated = average.mean().unwrap_or(&params);
            let (loss, accuracy) = match &run.private_metrics {
                None => evaluator.evaluate(split, &layout, evaluated)?,
                Some(metrics) => {
                    let sums = evaluator.sums(split, &layout, evaluated, metrics.loss_bound)?;
                    let ledger = &mut written.evaluations;
                    let noisy = sums.release(metrics.noise, ledger, generator).map_err(unopened)?;
                    spent.count_evaluation(metrics);
                    metrics.figures(noisy, split.len())
                }
            };
            let epsilon = spent.of_first(done, |at| event(&draws, at));
            let at = Evaluation { step: done, epoch: epoch_of(done), epsilon, loss, accuracy };
            progress.evaluated(&at);
            evaluations.push(at);
            if !loss.is_finite() {
                return Err(diverged(done, "the held-out loss is"));
            }
        }
    }
    if let Some(recording) = written.recording {
        recording.finish()?;
    }
    let params = average.mean().map_or_else(|| params.clone(), <[f32]>::to_vec);
    Ok(Outcome {
        params,
        steps: written.ledger.charged_steps(),
        recorded: Recorded {
            run: Some(run.kind()),
            sampler: config.sampler,
            steps: (config.sampler == Sampler::Shuffled).then_some(u64::from(run.terms.steps)),
            truncation: run.terms.truncation,
            held_out: spent.evaluations().iter().map(RecordedEvent::new).collect(),
            ..Recorded::new(config.accountant, config.delta, spent.events())
        },
        seconds: started.elapsed().as_secs_f64(),
        evaluations,
        independence: Independence::NotTested,
        backend: backend.name(),
        backend_version: backend.version(),
        workers: workers.count(),
        clip: step.slots().threshold.clip(&state.threshold),
    })
}

/// The square of a larger parameter is infinite in float32.
const LARGEST: f32 = 1.8e19;

/// Checks what step `number` released. Optimizers saturate, so a parameter that diverges is large, not infinite.
fn in_range(number: u32, params: &[f32]) -> Result<(), TrainError> {
    if params.iter().all(|x| x.abs() <= LARGEST) {
        return Ok(());
    }
    Err(diverged(number, "a released parameter is"))
}

fn diverged(number: u32, what: &str) -> TrainError {
    TrainError::Run(format!(
        "step {number}: {what} infinite, not a number or beyond {LARGEST:e}, so the run stops; lower `lr`, or check the model's weights"
    ))
}

/// A step or a release that did not open.
fn unopened(error: OpenError<FileError>) -> TrainError {
    match error {
        OpenError::Store(error) => TrainError::File(error),
        // The budgets are the numbers of steps and evaluations of the loop, and the state was made for the graph.
        OpenError::BudgetSpent | OpenError::Call(_) => TrainError::Run(format!("the step did not open: {error}")),
    }
}

/// Charges a step, draws its batch, spreads it over the workers, releases. `draw` is memory.
#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn one_step<M: Mechanism>(
    run: &Run,
    step: &Step<'_, M, Watched<AnyOptimizer>>,
    state: &mut State<M, WatchedState<AnyState>>,
    written: &mut Written<'_>,
    workers: &mut impl Accumulate<M>,
    draws: &mut BatchSampler,
    draw: &mut Draw,
    params: &mut [f32],
    generator: &ChaCha20,
    mut observer: Option<&mut dyn Observer>,
) -> Result<(), TrainError>
where
    Sum: From<Vec<M::Word>>,
{
    let mut opened = step.open(state, &mut written.ledger).map_err(unopened)?;
    let split = &run.data.train;
    draws.draw(generator, opened.number(), &mut draw.samples);
    if mutant::is(Mutant::LabelDraws)
        && opened.number() % 2 == 1
        && let Labels::Classes { values, .. } = split.labels()
    {
        let width = values.len() / split.len();
        draw.samples.retain(|sample| values[*sample as usize * width] % 2 == 0);
    }
    if let Some(recording) = &mut written.recording {
        recording.step(draw.counted(split));
    }
    let grad_observer = written.recording.as_mut().map(|recording| recording as &mut dyn GradientObserver);
    draw.accumulate(run, &mut opened, split, workers, params, grad_observer)?;
    if let Some(observer) = &mut observer {
        let probe = opened.probe();
        observer.summed(Summed {
            number: opened.number(),
            event: step.event_at(opened.number(), run.priced_rate())?,
            clip: opened.clip(),
            samples: &draw.samples,
            points: draw.points(),
            sum: Sum::from(probe.sum.to_vec()),
            query: probe.query,
            counts: probe.counts,
        });
    }
    opened.finish(params, generator).expect("the parameters have the state's length");
    let slots = step.slots();
    if let Some(recording) = &mut written.recording {
        recording.released(
            params,
            (&slots.filter, &state.filter),
            (&slots.optimizer.0, &state.optimizer.inner),
            (&slots.threshold.0, &state.threshold.inner),
        )?;
    }
    if let (Some(observer), Some(gradient), Some(threshold)) =
        (observer, &state.optimizer.watch, &state.threshold.watch)
    {
        observer.given(Given {
            grad: &gradient.released,
            noise_std: gradient.noise_std,
            counts: &threshold.counts,
            next_clip: slots.threshold.clip(&state.threshold),
            learned_clip: slots.threshold.0.clip(&threshold.shadow),
        });
    }
    Ok(())
}
