//! The state of a run: new, or restored from an earlier process.

use super::pricing::Pricing;
use super::settled::Settled;
use super::trajectory::Trajectory;
use crate::choice::OptimizerState;
use crate::engine::iterates::Iterates;
use crate::engine::sampler::BatchSampler;
use crate::engine::step_loop::{self, Draw, State, StepSum};
use crate::engine::trained::Trained;
use crate::engine::watched::{GradientWatch, ThresholdWatch, Watched, WatchedState};
use crate::engine::worker::{Accumulate, ParamLayout, RunStep};
use crate::state::checkpoint::{Moment, Place};
use crate::state::space::check_room;
use crate::{Resumed, RunEvent, TrainError};
use damper_core::clip::Layer;
use damper_core::slots::OptimizerSlot;

/// A run in progress. `M` is the mechanism and `W` its workers.
pub(super) struct Engine<'a, 'o, 'l, M: Trained, W> {
    pub(super) settled: Settled<'a, 'o>,
    pub(super) workers: W,
    pub(super) step: RunStep<'l, M, Watched<OptimizerSlot>>,
    pub(super) state: State<M, WatchedState<OptimizerState>>,
    pub(super) trajectory: Trajectory<'a>,
    pub(super) draws: BatchSampler,
    pub(super) draw: Draw<'a>,
    pub(super) pricing: Pricing,
    /// Charged steps that a stop lost.
    pub(super) lost_steps: u32,
}

impl<'a, 'o, 'l, M, W> Engine<'a, 'o, 'l, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// Returns the engine before its first step, with the state of an earlier process if there is one.
    pub(super) fn new(
        mut settled: Settled<'a, 'o>,
        mechanism: M,
        workers: W,
        layers: &'l [Layer],
    ) -> Result<Self, TrainError> {
        let Settled { run, backend, generator, .. } = settled;
        let Place { first, lost, .. } = settled.written.place;
        let layout = ParamLayout::new(&run.model.grad);
        // After a stop, the noise state is rebuilt from the key. This includes lost steps, because their noise stays in
        // later steps.
        let noise =
            mechanism.noise(layout.dim(), first, generator).map_err(|error| TrainError::Run(error.to_string()))?;
        let coordinates = settled.ranks.coordinates();
        let (step, mut state) = step_loop::step_of(run, mechanism, noise, layers, coordinates, |optimizer, state| {
            (Watched(optimizer), WatchedState { inner: state, watch: None })
        })?;
        if settled.observer.is_some() {
            let method = &run.config.method;
            let (_, shadow) = method.threshold.build(method.count_non_finite)?;
            state.optimizer.watch = Some(GradientWatch::new(run.model.params.len()));
            state.threshold.watch = Some(ThresholdWatch { counts: vec![], shadow });
        }
        let mut iterates = Iterates::new(run);
        let (before, lost_steps) = settled.restore::<M>(&mut iterates, &mut state)?;
        let (evaluates, folder) = (settled.ranks.leads(), settled.written.folder);
        let mut trajectory = Trajectory::begin(run, iterates, backend, evaluates, folder, before, first - lost)?;
        trajectory.done = first;
        let mut draws = BatchSampler::new(run, run.data.train.len() as u32);
        let (rows, chunks) = settled.ranks.share(&run.data.train);
        draws.limit(rows.start as u32..rows.end as u32);
        let mut draw = Draw::new(run, generator);
        draw.take_share(chunks);
        let pricing = Pricing::begin(run, &step, &draws, first)?;
        if first > 0 {
            let at = Resumed { step: first - lost, lost, evaluations: trajectory.evaluations.all() };
            settled.progress.on_event(RunEvent::Resumed(at));
        }
        Ok(Self { settled, workers, step, state, trajectory, draws, draw, pricing, lost_steps })
    }
}

impl Settled<'_, '_> {
    /// Restores the state of the earlier process on all ranks. Returns its progress before the stop, and the number of
    /// lost steps.
    fn restore<M: Trained>(
        &mut self,
        iterates: &mut Iterates,
        state: &mut State<M, WatchedState<OptimizerState>>,
    ) -> Result<(Moment, u32), TrainError> {
        let Self { run, ranks, written, .. } = self;
        let saved = written.checkpoint.as_mut().and_then(|checkpoint| checkpoint.take_saved());
        ranks.restore(saved, iterates, state, |error| match &written.checkpoint {
            Some(checkpoint) => checkpoint.damaged(error),
            None => TrainError::Run(format!("the state of rank 0: {error}")),
        })?;
        ranks.save(iterates, state, |memory| {
            if let Some(folder) = written.folder {
                check_room(run, folder, written.checkpoint.is_some().then_some(&mut *memory))?;
            }
            match &mut written.checkpoint {
                Some(checkpoint) => checkpoint.go_on(written.place, memory),
                None => Ok(()),
            }
        })?;
        let kept = written.checkpoint.as_ref();
        let (mut before, lost_steps) =
            kept.map_or_else(Default::default, |checkpoint| (checkpoint.moment(), checkpoint.lost()));
        if written.place.first > 0 {
            ranks.tell(&mut before)?;
        }
        Ok((before, lost_steps))
    }
}
