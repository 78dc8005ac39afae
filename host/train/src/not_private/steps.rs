//! The loop without privacy: draw, mean gradient, update, again.

use crate::best::BestParams;
use crate::checkpoint::{Checkpoint, Environment, Moment, Place};
use crate::dry_run::check_result;
use crate::evaluate::Evaluator;
use crate::galore::forms;
use crate::generator;
use crate::held_out::steps_between;
use crate::non_finite::NonFinite;
use crate::rehearsal::self_test;
use crate::sampler::BatchSampler;
use crate::space::check_room;
use crate::steps::{TICK, diverged, in_range};
use crate::tune::backend_of;
use crate::worker::{Layout, OUTPUTS, PlainSums, Sessions, Views};
use crate::{Evaluation, Independence, Outcome, Progress, Resumed, Run, StepReport, TestMetrics, TrainError};
use damper_access::NotPrivate;
use damper_accounting::{Recorded, RunKind};
use damper_core::average::Average;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::state::SaveState;
use damper_data::chunks;
use std::path::Path;
use std::time::Instant;

/// Trains `run`, which is not private. The plan in `folder` says so before the first step.
pub(crate) fn train(
    run: &Run,
    folder: &Path,
    mut checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let config = &run.config;
    let mut key = checkpoint.as_ref().map_or_else(|| generator::key(config.seed), |checkpoint| Ok(checkpoint.key()))?;
    let generator = generator::generator(config.seed, &mut key);
    let backend = backend_of(run)?;
    progress.backend(&backend.note());
    let (split, rows, threads) = (&run.data.train, run.physical_batch, run.threads());
    self_test(backend.as_ref(), &run.grad, &OUTPUTS, rows, &run.params)?;
    let sessions = Sessions { backend: backend.as_ref(), grad: &run.grad, split, rows, threads };
    let mut workers = PlainSums::new(&sessions)?;
    let layout = Layout::new(&run.grad);
    let mut evaluator = match &run.data.test {
        Some(split) if config.test_metrics != TestMetrics::None => {
            Some((Evaluator::new(backend.as_ref(), run, split)?, split))
        }
        _ => None,
    };

    let plan = run.run_plan()?;
    let (optimizer, mut state) = config.optimizer.build(&forms(&run.grad))?;
    let mut params = run.params.clone();
    let mut average = Average::new(vec![0.0; if config.average.is_some() { params.len() } else { 0 }]);
    let mut before = Moment::default();
    let mut first = 0;
    if let Some(checkpoint) = &mut checkpoint {
        let place: Place = checkpoint.place(Environment::of(run, backend.as_ref(), threads), &plan)?;
        checkpoint.restore(place, &mut (&mut params[..], (&mut average, &mut state)))?;
        (before, first) = (checkpoint.moment(), place.first);
    }
    let mut evaluations = before.evaluations;
    if first > 0 {
        progress.resumed(&Resumed { step: first, lost: 0, evaluations: &evaluations });
    }
    check_result(run)?;
    let memory: &mut dyn SaveState = &mut (&mut params[..], (&mut average, &mut state));
    check_room(run, folder, checkpoint.is_some().then_some(memory))?;
    let mut non_finite = NonFinite::begin(Some(folder), first);
    plan.write(folder)?;

    let steps = run.terms.steps;
    let evaluate_every = steps_between(config, run.terms.rate);
    let is_evaluated = |done: u32| done == steps || evaluate_every.is_some_and(|every| done.is_multiple_of(every));
    let started = Instant::now();
    let elapsed = || before.seconds + started.elapsed().as_secs_f64();
    let stalls = |evaluations: &[Evaluation]| {
        config.stop_early.is_some_and(|patience| Evaluation::has_stalled(evaluations, patience.get()))
    };
    let mut draws = BatchSampler::new(run, split.len() as u32);
    let (mut samples, mut sum, mut mean) = (vec![], vec![0.0; params.len()], vec![0.0; params.len()]);
    let mut told = started;
    let mut done = first;
    let mut stopped = false;
    let mut stalled = first < steps && stalls(&evaluations);
    let mut best = BestParams::begin(Some(folder), &evaluations, params.len());
    while done < steps && !stopped && !stalled {
        draws.draw(&generator, done, &mut samples);
        let all: Vec<_> = chunks(&samples, rows).collect();
        let views = Views::new(config.augment, &generator, done);
        workers.sum(split, &all, views, &params, &mut sum)?;
        let taken = samples.len() * views.map_or(1, |views| views.count() as usize);
        non_finite.add(taken, workers.non_finite(), progress);
        divide(&sum, config.batch_size, &mut mean);
        let lr = run.terms.learning_rate.at(done);
        update(&optimizer, &mut state, lr, &mean, &mut params);
        if let Some(weight) = config.average.and_then(|averaging| averaging.weight(done, steps, lr)) {
            average.add(&params, weight).expect("the mean has the parameters' length, and rates are finite");
        }
        done += 1;
        in_range(done, &params)?;
        // As a private run tells it.
        let is_twentieth = u64::from(done) * 20 / u64::from(steps) > u64::from(done - 1) * 20 / u64::from(steps);
        if told.elapsed() >= TICK || is_twentieth {
            told = Instant::now();
            let seconds = elapsed();
            let samples_per_second = f64::from(done) * f64::from(config.batch_size) / seconds;
            let at = StepReport { step: done, steps, seconds, samples_per_second };
            progress.step(&at, &mut |_| f64::INFINITY);
        }
        if let Some((evaluator, split)) = evaluator.as_mut().filter(|_| is_evaluated(done)) {
            let (loss, accuracy) = evaluator.evaluate(split, &layout, average.mean().unwrap_or(&params))?;
            let epoch = f64::from(done) * run.terms.rate.as_f64();
            let at = Evaluation { step: done, epoch, epsilon: f64::INFINITY, loss, accuracy };
            progress.evaluated(&at);
            evaluations.push(at);
            best.keep(config, &evaluations, average.mean().unwrap_or(&params));
            if !loss.is_finite() {
                return Err(diverged(done, "the held-out loss is"));
            }
            stalled = done < steps && stalls(&evaluations);
        }
        stopped = done < steps && !stalled && progress.stop();
        let is_last = stopped || stalled || done == steps;
        if is_last {
            non_finite.tell(progress);
        }
        if is_last || checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due()) {
            non_finite.write(folder)?;
            best.write(folder)?;
        }
        if let Some(checkpoint) = &mut checkpoint
            && (stopped || stalled || done == steps || checkpoint.is_due())
        {
            checkpoint.save(done, elapsed(), &evaluations, None, &mut (&mut params[..], (&mut average, &mut state)))?;
            progress.saved(done);
        }
    }
    let mut last_iterate = None;
    let mut class_metrics = None;
    if let Some((evaluator, split)) = &mut evaluator
        && !stopped
    {
        // Of the evaluation before, so it comes first.
        let found = evaluator.class_metrics(split, &layout, average.mean().unwrap_or(&params))?;
        class_metrics = found.map(|found| found.named(run.data.names.classes.as_deref()));
        last_iterate = evaluator.last_iterate(split, &layout, &params, average.mean())?;
    }
    let params = average.mean().map_or_else(|| params.clone(), <[f32]>::to_vec);
    Ok(Outcome {
        class_metrics,
        last_iterate,
        params,
        steps: done,
        stopped,
        ended_early: stalled.then_some(done),
        best: stalled.then(|| best.of_early_end(&evaluations)).flatten(),
        lost_steps: 0,
        recorded: Recorded {
            run: Some(RunKind::NotPrivate),
            sampler: config.sampler,
            ..Recorded::new(config.accountant, config.delta, &[])
        },
        seconds: elapsed(),
        evaluations,
        independence: Independence::NotTested,
        is_recorded: false,
        normalize: None,
        non_finite: None,
        backend: backend.name(),
        backend_version: backend.version(),
        operators: backend.operators(),
        ways: backend.ways(),
        workers: workers.count(),
        clip: f32::INFINITY,
    })
}

/// The mean over the expected batch, within the range of f32.
fn divide(sum: &[f64], batch: u32, mean: &mut [f32]) {
    for (mean, sum) in mean.iter_mut().zip(sum) {
        *mean = (sum / f64::from(batch)).clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    }
}

/// Moves the parameters as the core does after a release.
fn update<S>(optimizer: &impl Optimizer<S>, state: &mut S, lr: f64, mean: &[f32], params: &mut [f32]) {
    let mean = Released::not_private(mean, NotPrivate::claim());
    if optimizer.needs_full_gradient() {
        optimizer.observe(state, 0, &mean);
    }
    let step = optimizer.begin(state, Begin { lr, noise_std: 0.0 });
    optimizer.update(step, state, 0, params, &mean, &mean);
    optimizer.end(step, state, params);
}
