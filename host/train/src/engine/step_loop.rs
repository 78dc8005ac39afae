//! Code shared by every loop over the steps of a run, in training and in audits. It has the mechanism with its workers,
//! the step with its state, and the path from a batch to the sum.

use crate::choice::{FilterState, OptimizerState};
use crate::engine::galore::{MatrixShape, forms};
use crate::engine::generator::RunGenerator;
use crate::engine::rehearsal::self_test;
use crate::engine::sampler::BatchSampler;
use crate::engine::trained::{CorrelatedMechanism, Trained};
use crate::engine::watched::{GradientWatch, Watched, WatchedState, WatchedThreshold, WatchedThresholdState};
use crate::engine::worker::{
    Accumulate, ClippedSums, DeviceGradients, DeviceSession, GradientObserver, GradsAt, OUTPUTS, Opened, ParamLayout,
    PerSampleGradients, Point, RunStep, SUMS, Sessions, Views, exact,
};
use crate::{NoiseKind, Run, TrainConfig, TrainError};
use damper_access::Unreleased;
use damper_accounting::Sampler;
use damper_core::accounting::{Rate, SampledGaussian};
use damper_core::clip::Layer;
use damper_core::grid::Grid;
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian};
use damper_core::optimizer::Optimizer;
use damper_core::private::{Mechanism, SumWord};
use damper_core::schedule::{AnyNoise, Declared, NoiseSchedule};
use damper_core::slots::OptimizerSlot;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_data::{Chunk, Split, chunks};
use damper_grad::GradGraph;
use damper_runtime::{Backend, BackendError};

/// State of a step, with `OS` the type of the optimizer's state.
pub type State<M, OS> =
    StepState<Vec<<M as Mechanism>::Word>, FilterState, OS, WatchedThresholdState, <M as Mechanism>::NoiseState>;

/// The words of a sum.
#[derive(Clone, PartialEq, Debug)]
pub enum StepSum {
    /// Grid units. Exact.
    Grid(Vec<i64>),
    /// Floats. Not exact.
    Floats(Vec<f32>),
}

impl From<Vec<SumWord<i64>>> for StepSum {
    fn from(words: Vec<SumWord<i64>>) -> Self {
        Self::Grid(words.into_iter().map(|word| word.get(Unreleased::claim())).collect())
    }
}

impl From<Vec<SumWord<i32>>> for StepSum {
    fn from(words: Vec<SumWord<i32>>) -> Self {
        Self::Grid(words.into_iter().map(|word| word.get(Unreleased::claim()).into()).collect())
    }
}

impl From<Vec<SumWord<f32>>> for StepSum {
    fn from(words: Vec<SumWord<f32>>) -> Self {
        Self::Floats(words.into_iter().map(|word| word.get(Unreleased::claim())).collect())
    }
}

/// Code that runs the steps of a run, after mechanism and workers are chosen.
pub trait StepLoop {
    /// The result.
    type End;

    /// Runs the steps.
    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Self::End, TrainError>
    where
        M: Trained,
        G: Accumulate<M>,
        StepSum: From<Vec<M::Word>>;
}

/// Returns the graph that the workers of `run` run on samples, and the name prefixes of the outputs that they read.
pub fn graph_of(run: &Run) -> (&GradGraph, &'static [&'static str]) {
    match &run.model.clipped {
        Some(clipped) => (clipped, &SUMS),
        None => (&run.model.grad, &OUTPUTS),
    }
}

/// Returns the sessions of `run`.
fn sessions<'a>(run: &'a Run, backend: &'a dyn Backend) -> Sessions<'a> {
    let normalize = run.normalize.as_ref();
    let (grad, split, rows, threads) = (&run.model.grad, &run.data.train, run.model.physical_batch, run.threads());
    Sessions { backend, grad, split, rows, threads, normalize }
}

/// Runs the step loop of a run that takes its exact sum on a device.
pub(crate) fn go_on_device<C: StepLoop>(
    run: &Run,
    backend: &dyn Backend,
    device: DeviceSession,
    step_loop: C,
) -> Result<C::End, TrainError> {
    step_loop.go(exact(run)?, DeviceGradients::new(device, &sessions(run, backend))?)
}

/// Self-tests the run's graph on `backend`, loads it for each thread, and runs the step loop.
pub fn go<C: StepLoop>(run: &Run, backend: &dyn Backend, step_loop: C) -> Result<C::End, TrainError> {
    let sessions = sessions(run, backend);
    let (grad, prefixes) = graph_of(run);
    self_test(backend, grad, prefixes, sessions.rows, &run.model.params)?;
    let continuous = || ContinuousGaussian::new(run.price.terms.multiplier);
    if let Some(correlated) = &run.price.terms.correlated {
        let workers = PerSampleGradients::new(&sessions)?;
        let mechanism: CorrelatedMechanism = correlated.mechanism()?;
        return step_loop.go(mechanism, workers);
    }
    match (run.config.noise, run.price.terms.sigma_grid, &run.model.clipped) {
        (NoiseKind::Discrete, Some(sigma), None) => {
            let grid = Grid::new(run.config.grid_bits)?;
            let has_one_sigma = run.price.terms.noise_schedule == AnyNoise::Schedule(NoiseSchedule::Constant);
            // The bits are the same, with half the memory traffic per sample.
            let draw = expected_draw(&run.config, run.priced_rate(), run.data.train.len());
            if has_one_sigma && !grid.may_overflow_i32(draw, sigma) {
                let workers = PerSampleGradients::new(&sessions)?;
                return step_loop.go(DiscreteGaussian::<i32>::new(grid, sigma)?, workers);
            }
            let workers = PerSampleGradients::new(&sessions)?;
            step_loop.go(DiscreteGaussian::<i64>::new(grid, sigma)?, workers)
        }
        (_, _, Some(clipped)) => {
            let workers = ClippedSums::new(&Sessions { grad: clipped, ..sessions })?;
            step_loop.go(continuous()?, workers)
        }
        _ => {
            let workers = PerSampleGradients::new(&sessions)?;
            step_loop.go(continuous()?, workers)
        }
    }
}

/// Returns the expected number of samples in a step. It exceeds the batch size if fewer samples are declared than
/// exist.
fn expected_draw(config: &TrainConfig, rate: Rate, samples: usize) -> u32 {
    let is_thrown = matches!(config.sampler, Sampler::Poisson | Sampler::CyclicPoisson);
    config.batch_size.max(if is_thrown { (rate.as_f64() * samples as f64).ceil() as u32 } else { 0 })
}

/// Returns the layers of the run's clip rule, which its step borrows.
pub fn layers(run: &Run) -> Vec<Layer> {
    run.config.method.clipping.layers(ParamLayout::new(&run.model.grad).lengths())
}

/// Returns the event of step `number`. If an event has several steps, they are accounted together.
pub fn event<M: Trained, O: Clone>(
    run: &Run,
    step: &RunStep<'_, M, O>,
    number: u32,
) -> Result<SampledGaussian, TrainError> {
    Ok(match (&run.price.terms.correlated, step.slots().mechanism.whole()) {
        (Some(correlated), _) if correlated.rate.is_some() => correlated.event()?.0,
        (_, Some(whole)) => whole?,
        _ => step.event_at(number, run.priced_rate())?,
    })
}

/// Returns the step of `run` and its state. `noise` is the noise state, and `around` wraps the optimizer and its state.
#[allow(clippy::type_complexity)] // A step and its state.
pub fn step<'a, M: Trained, O: Clone, OS>(
    run: &Run,
    mechanism: M,
    noise: M::NoiseState,
    layers: &'a [Layer],
    around: impl FnOnce(OptimizerSlot, OptimizerState) -> (O, OS),
) -> Result<(RunStep<'a, M, O>, State<M, OS>), TrainError> {
    step_of(run, mechanism, noise, layers, None, around)
}

/// Does the same as [`step`], with an optimizer that exposes the released values it receives.
#[allow(clippy::type_complexity)] // A step and its state.
pub fn watched_step<'a, M: Trained>(
    run: &Run,
    mechanism: M,
    noise: M::NoiseState,
    layers: &'a [Layer],
) -> Result<(RunStep<'a, M, Watched<OptimizerSlot>>, State<M, WatchedState<OptimizerState>>), TrainError> {
    step(run, mechanism, noise, layers, |optimizer, state| {
        let watch = Some(GradientWatch::new(ParamLayout::new(&run.model.grad).dim()));
        (Watched(optimizer), WatchedState { inner: state, watch })
    })
}

/// Does the same as [`step`], with a filter and an optimizer for this many `coordinates`, if not for all.
#[allow(clippy::type_complexity)] // A step and its state.
pub fn step_of<'a, M: Trained, O: Clone, OS>(
    run: &Run,
    mechanism: M,
    noise: M::NoiseState,
    layers: &'a [Layer],
    coordinates: Option<usize>,
    around: impl FnOnce(OptimizerSlot, OptimizerState) -> (O, OS),
) -> Result<(RunStep<'a, M, O>, State<M, OS>), TrainError> {
    let (config, method) = (&run.config, &run.config.method);
    let dim = ParamLayout::new(&run.model.grad).dim();
    let (filter, filter_state) = method.filter.build(coordinates.unwrap_or(dim))?;
    let (threshold, threshold_state) = method.threshold.build(method.count_non_finite)?;
    let forms = coordinates.map_or_else(|| forms(&run.model.grad), |rows| vec![MatrixShape { rows, columns: 1 }]);
    let (optimizer, optimizer_state) = config.optimizer.build(&forms)?;
    let (optimizer, optimizer_state) = around(optimizer, optimizer_state);
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: method.clipping.build(layers)?,
        threshold: WatchedThreshold(threshold),
        filter,
        optimizer,
        schedule: Declared { learning_rate: run.price.terms.learning_rate, noise: run.price.terms.noise_schedule },
        expected_batch: config.batch_size,
    })?;
    let threshold_state = WatchedThresholdState { inner: threshold_state, watch: None };
    let state = StepState::new(vec![M::Word::default(); dim], filter_state, optimizer_state, threshold_state);
    Ok((step, state.with_noise(noise)))
}

/// The samples of a step, and the evaluation points of its gradients. Reuses its buffers.
pub struct Draw<'a> {
    run: &'a Run,
    /// The generator of the samples and their views.
    generator: &'a RunGenerator,
    /// The samples of the batch, ascending.
    pub samples: Vec<u32>,
    points: Vec<Point>,
    /// Computes the gradients of every `share.1`-th chunk, starting at number `share.0`.
    share: (usize, usize),
}

impl<'a> Draw<'a> {
    /// Creates the draws of `run`, with the gradients of all chunks.
    pub fn new(run: &'a Run, generator: &'a RunGenerator) -> Self {
        Self { run, generator, samples: vec![], points: vec![], share: (0, 1) }
    }

    /// From now on, computes the gradients of every `share.1`-th chunk, starting at number `share.0`.
    pub fn take_share(&mut self, share: (usize, usize)) {
        self.share = share;
    }

    /// Draws the samples of an open step by Bernoulli trials, from `split` and the `others` samples after it.
    pub fn throw<M: Trained, O, OS>(&mut self, opened: &Opened<'_, '_, M, O, OS>, split: &Split, others: u32)
    where
        O: Optimizer<OS>,
    {
        let mut sampler = BatchSampler::new(self.run, split.len() as u32 + others);
        sampler.draw(self.generator, opened.number(), &mut self.samples);
    }

    /// Runs the workers, which compute, clip and sum the gradients of the batch from `split`. Returns the number of
    /// samples added, without null samples.
    pub fn accumulate<M: Trained, O, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        split: &Split,
        workers: &mut impl Accumulate<M>,
        params: &[f32],
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<usize, BackendError>
    where
        O: Optimizer<OS>,
    {
        let own = self.samples.partition_point(|sample| (*sample as usize) < split.len());
        let (first, every) = self.share;
        let all = chunks(&self.samples[..own], self.run.model.physical_batch);
        let shared: Vec<Chunk<'_>> = all.skip(first).step_by(every).collect();
        self.points.resize_with(opened.eval_points(), Point::default);
        for (index, point) in self.points.iter_mut().enumerate() {
            point.params.resize(params.len(), 0.0);
            point.weight =
                opened.eval_point(index, params, &mut point.params).expect("the points have the parameters' length");
        }
        let views = Views::new(self.run.config.augment, self.generator, opened.number());
        workers.accumulate(opened, split, &shared, GradsAt { points: &self.points, views }, grad_observer)?;
        Ok(shared.iter().map(|chunk| counted(chunk.samples, split)).sum())
    }

    /// Returns the evaluation points of the last step.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the number of drawn samples that are not null.
    pub fn counted(&self, split: &Split) -> usize {
        counted(&self.samples, split)
    }
}

/// Returns the number of `samples` that are not null.
fn counted(samples: &[u32], split: &Split) -> usize {
    samples.iter().filter(|sample| !split.is_null(**sample as usize)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Method};

    // A declared number of samples below the actual number gives batches above the batch size.
    #[test]
    fn declared_samples_make_draws_larger() {
        let usual = TrainConfig::new(Budget::NoiseMultiplier(1.0), 1e-5, 500, 1.0, Method::dp_sgd(1.0, 0.1));
        let rate = Rate::of(500, 2_500).unwrap();
        assert_eq!(expected_draw(&usual, rate, 10_000), 2_000);
        assert_eq!(expected_draw(&usual, rate, 2_500), 500);
        let shuffled = TrainConfig { sampler: Sampler::Shuffled, ..usual };
        assert_eq!(expected_draw(&shuffled, Rate::ONE, 10_000), 500);
    }
}
