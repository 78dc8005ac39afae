//! The loop without privacy: draw, mean gradient, update, again.

use crate::choice::OptimizerState;
use crate::engine::dry_run::check_result;
use crate::engine::galore::forms;
use crate::engine::generator::{self, ChaCha20};
use crate::engine::non_finite::NonFinite;
use crate::engine::rehearsal::self_test;
use crate::engine::sampler::BatchSampler;
use crate::engine::tune::backend_of;
use crate::engine::worker::{OUTPUTS, PlainSums, Sessions, Views};
use crate::engine::{Clock, Evaluations, in_range};
use crate::state::checkpoint::{Checkpoint, Environment, Moment, Place};
use crate::state::space::check_room;
use crate::{Evaluation, Independence, Outcome, Progress, Resumed, Run, RunEvent, TrainError};
use damper_access::NotPrivate;
use damper_accounting::{Recorded, RunKind};
use damper_core::average::Average;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::slots::OptimizerSlot;
use damper_core::state::SaveState;
use damper_data::chunks;
use damper_runtime::Backend;
use std::path::Path;

/// Trains `run`, which is not private. The plan in `folder` says so before the first step.
pub(crate) fn train(
    run: &Run,
    folder: &Path,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let config = &run.config;
    let mut key = checkpoint.as_ref().map_or_else(|| generator::key(config.seed), |checkpoint| Ok(checkpoint.key()))?;
    let generator = generator::generator(config.seed, &mut key);
    let backend = backend_of(run)?;
    progress.on_event(RunEvent::Opened(&backend.note()));
    let (split, rows, threads) = (&run.data.train, run.physical_batch, run.threads());
    self_test(backend.as_ref(), &run.grad, &OUTPUTS, rows, &run.params)?;
    let sessions = Sessions { backend: backend.as_ref(), grad: &run.grad, split, rows, threads };
    let workers = PlainSums::new(&sessions)?;
    let mut engine = Engine::new(run, workers, backend.as_ref(), &generator, (folder, checkpoint), progress)?;
    let steps = run.terms.steps;
    while engine.done < steps && !engine.stopped && !engine.stalled {
        engine.step(progress)?;
        engine.tell(progress);
        if engine.evaluations.is_due(engine.done) {
            engine.evaluate(progress)?;
        }
        engine.stopped = engine.done < steps && !engine.stalled && progress.stop();
        engine.save(progress)?;
    }
    engine.end()
}

/// A run without privacy on its way.
struct Engine<'a> {
    run: &'a Run,
    folder: &'a Path,
    checkpoint: Option<&'a mut Checkpoint>,
    backend: &'a dyn Backend,
    generator: &'a ChaCha20,
    workers: PlainSums,
    optimizer: OptimizerSlot,
    state: OptimizerState,
    params: Vec<f32>,
    average: Average<Vec<f32>>,
    draws: BatchSampler,
    samples: Vec<u32>,
    sum: Vec<f64>,
    mean: Vec<f32>,
    evaluations: Evaluations<'a>,
    non_finite: NonFinite,
    clock: Clock,
    done: u32,
    stopped: bool,
    stalled: bool,
}

impl<'a> Engine<'a> {
    /// The engine before its first step, with the state of an earlier process if there is one.
    fn new(
        run: &'a Run,
        workers: PlainSums,
        backend: &'a dyn Backend,
        generator: &'a ChaCha20,
        (folder, mut checkpoint): (&'a Path, Option<&'a mut Checkpoint>),
        progress: &mut dyn Progress,
    ) -> Result<Self, TrainError> {
        let config = &run.config;
        let plan = run.run_plan()?;
        let (optimizer, mut state) = config.optimizer.build(&forms(&run.grad))?;
        let mut params = run.params.clone();
        let mut average = Average::new(vec![0.0; if config.average.is_some() { params.len() } else { 0 }]);
        let mut before = Moment::default();
        let mut first = 0;
        if let Some(checkpoint) = &mut checkpoint {
            let place: Place = checkpoint.place(Environment::of(run, backend, run.threads()), &plan)?;
            checkpoint.restore(place, &mut (&mut params[..], (&mut average, &mut state)))?;
            (before, first) = (checkpoint.moment(), place.first);
        }
        let evaluations = Evaluations::begin(run, backend, true, Some(folder), before.evaluations)?;
        if first > 0 {
            progress.on_event(RunEvent::Resumed(Resumed { step: first, lost: 0, evaluations: evaluations.all() }));
        }
        check_result(run)?;
        let memory: &mut dyn SaveState = &mut (&mut params[..], (&mut average, &mut state));
        check_room(run, folder, checkpoint.is_some().then_some(memory))?;
        let non_finite = NonFinite::begin(Some(folder), first);
        plan.write(folder)?;
        let stalled = first < run.terms.steps && evaluations.have_stalled();
        Ok(Self {
            draws: BatchSampler::new(run, run.data.train.len() as u32),
            samples: vec![],
            sum: vec![0.0; params.len()],
            mean: vec![0.0; params.len()],
            clock: Clock::after(before.seconds),
            done: first,
            stopped: false,
            run,
            folder,
            checkpoint,
            backend,
            generator,
            workers,
            optimizer,
            state,
            params,
            average,
            evaluations,
            non_finite,
            stalled,
        })
    }

    /// Draws a batch and follows its mean gradient.
    fn step(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let Self { run, generator, workers, state, params, samples, sum, mean, done, .. } = self;
        let config = &run.config;
        self.draws.draw(*generator, *done, samples);
        let all: Vec<_> = chunks(samples, run.physical_batch).collect();
        let views = Views::new(config.augment, generator, *done);
        workers.sum(&run.data.train, &all, views, params, sum)?;
        let taken = samples.len() * views.map_or(1, |views| views.count() as usize);
        self.non_finite.add(taken, workers.non_finite(), progress);
        divide(sum, config.batch_size, mean);
        let lr = run.terms.learning_rate.at(*done);
        update(&self.optimizer, state, lr, mean, params);
        if let Some(weight) = config.average.and_then(|averaging| averaging.weight(*done, run.terms.steps, lr)) {
            self.average.add(params, weight).expect("the mean has the parameters' length, and rates are finite");
        }
        *done += 1;
        in_range(*done, params)
    }

    /// Tells how far the run is, from time to time, as a private run does.
    fn tell(&mut self, progress: &mut dyn Progress) {
        if let Some(at) = self.clock.report(self.done, self.run) {
            progress.on_event(RunEvent::Stepped { at, epsilon: &mut |_| f64::INFINITY });
        }
    }

    /// Evaluates the parameters, and decides whether the run ends early.
    fn evaluate(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let evaluated = self.average.mean().unwrap_or(&self.params);
        let Some((loss, accuracy)) = self.evaluations.exact(evaluated)? else { return Ok(()) };
        let epoch = f64::from(self.done) * self.run.terms.rate.as_f64();
        let at = Evaluation { step: self.done, epoch, epsilon: f64::INFINITY, loss, accuracy };
        progress.on_event(RunEvent::Evaluated(at));
        self.evaluations.push(at, evaluated)?;
        self.stalled = self.done < self.run.terms.steps && self.evaluations.have_stalled();
        Ok(())
    }

    /// Writes the state, at the end and from time to time.
    fn save(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let Self { folder, checkpoint, state, params, average, evaluations, non_finite, clock, done, .. } = self;
        let is_last = self.stopped || self.stalled || *done == self.run.terms.steps;
        if is_last {
            non_finite.tell(progress);
        }
        if !is_last && !checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due()) {
            return Ok(());
        }
        non_finite.write(folder)?;
        evaluations.write_best(folder)?;
        if let Some(checkpoint) = checkpoint {
            let memory = &mut (&mut params[..], (average, state));
            checkpoint.save(*done, clock.seconds(), evaluations.all(), None, memory)?;
            progress.on_event(RunEvent::Saved(*done));
        }
        Ok(())
    }

    fn end(mut self) -> Result<Outcome, TrainError> {
        let Self { run, backend, ref params, ref average, stopped, stalled, .. } = self;
        let (mut class_metrics, mut last_iterate) = (None, None);
        if !stopped {
            (class_metrics, last_iterate) = self.evaluations.at_end(run, params, average.mean())?;
        }
        let config = &run.config;
        let (evaluations, best) = self.evaluations.into_best(stalled);
        Ok(Outcome {
            class_metrics,
            last_iterate,
            params: average.mean().map_or_else(|| params.clone(), <[f32]>::to_vec),
            steps: self.done,
            stopped,
            ended_early: stalled.then_some(self.done),
            best,
            lost_steps: 0,
            recorded: Recorded {
                run: Some(RunKind::NotPrivate),
                sampler: config.sampler,
                ..Recorded::new(config.accountant, config.delta, &[])
            },
            seconds: self.clock.seconds(),
            evaluations,
            independence: Independence::NotTested,
            is_recorded: false,
            normalize: None,
            non_finite: None,
            backend: backend.name(),
            backend_version: backend.version(),
            operators: backend.operators(),
            ways: backend.ways(),
            workers: self.workers.count(),
            clip: f32::INFINITY,
        })
    }
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
