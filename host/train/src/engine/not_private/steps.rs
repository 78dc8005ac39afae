//! The loop without privacy: draw, mean gradient, update.

use crate::choice::OptimizerState;
use crate::engine::dry_run::check_result;
use crate::engine::frozen;
use crate::engine::galore::forms;
use crate::engine::generator::{self, RunGenerator};
use crate::engine::host_nodes;
use crate::engine::iterates::Iterates;
use crate::engine::rehearsal::self_test;
use crate::engine::sampler::BatchSampler;
use crate::engine::worker::{OUTPUTS, PlainSums, Sessions, Views};
use crate::engine::{Ending, Trajectory};
use crate::state::checkpoint::{Checkpoint, Environment, Moment, Place};
use crate::state::space::check_room;
use crate::{Outcome, Progress, Resumed, Run, RunEvent, TrainError};
use damper_access::NotPrivate;
use damper_accounting::{Recorded, RunKind};
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::Released;
use damper_core::slots::OptimizerSlot;
use damper_core::state::SaveState;
use damper_data::chunks;
use damper_runtime::{Backend, open};
use std::path::Path;

/// Trains `run`, which is not private. The plan in `folder` records that before the first step.
pub(crate) fn train(
    run: &Run,
    folder: &Path,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let config = &run.config;
    let mut key = checkpoint.as_ref().map_or_else(|| generator::key(config.seed), |checkpoint| Ok(checkpoint.key()))?;
    let generator = generator::generator(config.seed, &mut key);
    let backend = open(config.backend)?;
    progress.on_event(RunEvent::Opened(&backend.note()));
    frozen::rehearse(run, backend.as_ref())?;
    let computed = frozen::computed(run, backend.as_ref(), progress)?;
    let run = computed.as_ref().unwrap_or(run);
    let (split, rows, threads) = (&run.data.train, run.model.physical_batch, run.threads());
    self_test(backend.as_ref(), &run.model.grad, &OUTPUTS, rows, &run.model.params)?;
    let sessions = Sessions { backend: backend.as_ref(), grad: &run.model.grad, split, rows, threads, normalize: None };
    let workers = PlainSums::new(&sessions)?;
    host_nodes::warn(backend.as_ref(), progress);
    let mut engine = Engine::new(run, workers, backend.as_ref(), &generator, (folder, checkpoint), progress)?;
    while !engine.trajectory.is_over() {
        engine.step(progress)?;
        engine.trajectory.tell(progress, &mut |_| f64::INFINITY);
        if engine.trajectory.evaluations.is_due(engine.trajectory.done) {
            engine.evaluate(progress)?;
        }
        engine.trajectory.stopped = !engine.trajectory.is_over() && progress.stop();
        engine.save(progress)?;
    }
    engine.end(progress)
}

/// A run without privacy in progress.
struct Engine<'a> {
    run: &'a Run,
    folder: &'a Path,
    checkpoint: Option<&'a mut Checkpoint>,
    backend: &'a dyn Backend,
    generator: &'a RunGenerator,
    workers: PlainSums,
    optimizer: OptimizerSlot,
    state: OptimizerState,
    draws: BatchSampler,
    samples: Vec<u32>,
    sum: Vec<f64>,
    mean: Vec<f32>,
    trajectory: Trajectory<'a>,
}

impl<'a> Engine<'a> {
    /// Returns the engine before its first step, with the state of an earlier process if there is one.
    fn new(
        run: &'a Run,
        workers: PlainSums,
        backend: &'a dyn Backend,
        generator: &'a RunGenerator,
        (folder, mut checkpoint): (&'a Path, Option<&'a mut Checkpoint>),
        progress: &mut dyn Progress,
    ) -> Result<Self, TrainError> {
        let plan = run.run_plan()?;
        let (optimizer, mut state) = run.config.optimizer.build(&forms(&run.model.grad))?;
        let mut iterates = Iterates::new(run);
        let mut before = Moment::default();
        let mut first = 0;
        if let Some(checkpoint) = &mut checkpoint {
            let place: Place = checkpoint.place(Environment::of(run, backend, run.threads()), &plan)?;
            checkpoint.restore(place, &mut iterates.with(&mut state))?;
            (before, first) = (checkpoint.moment(), place.first);
        }
        let mut trajectory = Trajectory::begin(run, iterates, backend, true, Some(folder), before, first)?;
        if first > 0 {
            let at = Resumed { step: first, lost: 0, evaluations: trajectory.evaluations.all() };
            progress.on_event(RunEvent::Resumed(at));
        }
        check_result(run)?;
        let mut kept = checkpoint.as_ref().map(|_| trajectory.iterates.with(&mut state));
        check_room(run, folder, kept.as_mut().map(|kept| kept as &mut dyn SaveState))?;
        plan.write(folder)?;
        trajectory.end_if_stalled(first);
        Ok(Self {
            draws: BatchSampler::new(run, run.data.train.len() as u32),
            samples: vec![],
            sum: vec![0.0; run.model.params.len()],
            mean: vec![0.0; run.model.params.len()],
            run,
            folder,
            checkpoint,
            backend,
            generator,
            workers,
            optimizer,
            state,
            trajectory,
        })
    }

    /// Draws a batch and updates the parameters by its mean gradient.
    fn step(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let Self { run, generator, workers, state, trajectory, samples, sum, mean, .. } = self;
        let (config, step) = (&run.config, trajectory.done);
        let params = &mut trajectory.iterates.params;
        self.draws.draw(*generator, step, samples);
        let all: Vec<_> = chunks(samples, run.model.physical_batch).collect();
        let views = Views::new(config.augment, generator, step);
        workers.sum(&run.data.train, &all, views, params, sum)?;
        let taken = samples.len() * views.map_or(1, |views| views.count() as usize);
        trajectory.non_finite.add(taken, workers.non_finite(), progress);
        divide(sum, config.batch_size, mean);
        update(&self.optimizer, state, run.price.terms.learning_rate.at(step), mean, params);
        trajectory.done += 1;
        trajectory.follow()
    }

    /// Evaluates the parameters, and decides whether the run ends early.
    fn evaluate(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let Trajectory { iterates, evaluations, .. } = &mut self.trajectory;
        let Some(figures) = evaluations.exact(iterates.result())? else { return Ok(()) };
        let at = self.trajectory.evaluation(figures, f64::INFINITY);
        self.trajectory.evaluated(at, progress)
    }

    /// Writes the state at the end, and if it is due.
    fn save(&mut self, progress: &mut dyn Progress) -> Result<(), TrainError> {
        let Self { folder, checkpoint, state, trajectory, .. } = self;
        let is_last = trajectory.is_over();
        let Trajectory { iterates, evaluations, non_finite, clock, done, .. } = trajectory;
        if is_last {
            non_finite.tell(progress);
        }
        if !is_last && !checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due()) {
            return Ok(());
        }
        non_finite.write(folder)?;
        evaluations.write_best(folder)?;
        if let Some(checkpoint) = checkpoint {
            checkpoint.save(*done, clock.seconds(), evaluations.all(), None, &mut iterates.with(state))?;
            progress.on_event(RunEvent::Saved(*done));
        }
        Ok(())
    }

    fn end(self, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
        let Self { run, backend, trajectory, workers, .. } = self;
        let config = &run.config;
        let mut recorded = Recorded::new(config.accountant, config.delta, &[]).with_kind(RunKind::NotPrivate);
        recorded.sampler = config.sampler;
        let steps = trajectory.done;
        let workers = workers.count();
        trajectory.outcome(Ending { backend, workers, steps, lost_steps: 0, recorded, clip: f32::INFINITY }, progress)
    }
}

/// Computes the mean over the expected batch, clamped to the range of f32.
fn divide(sum: &[f64], batch: u32, mean: &mut [f32]) {
    for (mean, sum) in mean.iter_mut().zip(sum) {
        *mean = (sum / f64::from(batch)).clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    }
}

/// Updates the parameters as the core does after a release.
fn update<S>(optimizer: &impl Optimizer<S>, state: &mut S, lr: f64, mean: &[f32], params: &mut [f32]) {
    let mean = Released::not_private(mean, NotPrivate::claim());
    if optimizer.needs_full_gradient() {
        optimizer.observe(state, 0, &mean);
    }
    let step = optimizer.begin(state, Begin { lr, noise_std: 0.0 });
    optimizer.update(step, state, 0, params, &mean, &mean);
    optimizer.end(step, state, params);
}
