//! The engine of a run: one step after the other, and what is told of each.
//!
//! `begin` settles what is fixed before the first step: the key, the backend, the plan, the ledgers, and where the steps begin. Then the
//! engine takes the steps. After each it tells what is released or public to whoever listens ([`Progress`]): how far the run is, an
//! evaluation, a state on the disk. On one process, [`Ranks`] pass values on.

mod begin;
mod clock;
mod evaluations;
mod outcome;
mod pricing;
mod step;

pub use begin::{observed, run, run_on, run_resumable};
pub(crate) use clock::Clock;
pub(crate) use evaluations::Evaluations;
use evaluations::diverged;
pub(crate) use step::in_range;

use self::begin::Settled;
use self::pricing::Pricing;
use crate::checkpoint::{Moment, Place};
use crate::choice::OptimizerState;
use crate::group::agree;
use crate::non_finite::{NonFinite, first_samples, tell_first};
use crate::non_finite_release::{self, Files};
use crate::observe::Observer;
use crate::recording::Recording;
use crate::sampler::BatchSampler;
use crate::sharded_state::WholeState;
use crate::space::check_room;
use crate::step_loop::{self, Draw, State, StepLoop, Sum};
use crate::trained::Trained;
use crate::watched::{GradientWatch, ThresholdWatch, Watched, WatchedState};
use crate::worker::{Accumulate, Layout, Step};
use crate::{Outcome, Resumed, StepReport, TrainError};
use damper_core::average::{Average, Averaging};
use damper_core::clip::Layer;
use damper_core::slots::OptimizerSlot;
use damper_data::Chunk;
use std::ops::Range;

/// A run on its way. `M` is the mechanism and `W` its workers.
struct Engine<'a, 'o, 'l, M: Trained, W> {
    settled: Settled<'a, 'o>,
    workers: W,
    step: Step<'l, M, Watched<OptimizerSlot>>,
    state: State<M, WatchedState<OptimizerState>>,
    params: Vec<f32>,
    average: Average<Vec<f32>>,
    draws: BatchSampler,
    draw: Draw,
    pricing: Pricing,
    evaluations: Evaluations<'a>,
    non_finite: NonFinite,
    clock: Clock,
    /// Steps that were charged before a stop, and lost.
    lost_steps: u32,
    /// The step after which the run ends early, if it does.
    ended_early: Option<u32>,
    /// Steps that are done.
    done: u32,
    stopped: bool,
}

impl StepLoop for Settled<'_, '_> {
    type End = Outcome;

    fn go<M, W>(self, mechanism: M, workers: W) -> Result<Outcome, TrainError>
    where
        M: Trained,
        W: Accumulate<M>,
        Sum: From<Vec<M::Word>>,
    {
        let layers = step_loop::layers(self.run);
        let mut engine = Engine::new(self, mechanism, workers, &layers)?;
        engine.look_at_first_samples()?;
        let non_finite = engine.release_non_finite()?;
        for done in engine.left() {
            engine.take(done)?;
            if engine.is_over()? {
                break;
            }
        }
        let outcome = engine.end()?;
        Ok(Outcome { non_finite, ..outcome })
    }
}

impl<'a, 'o, 'l, M, W> Engine<'a, 'o, 'l, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    Sum: From<Vec<M::Word>>,
{
    /// The engine before its first step, with the state of an earlier process if there is one.
    fn new(mut settled: Settled<'a, 'o>, mechanism: M, workers: W, layers: &'l [Layer]) -> Result<Self, TrainError> {
        let Settled { run, backend, generator, .. } = settled;
        let Place { first, lost, .. } = settled.written.place;
        let layout = Layout::new(&run.grad);
        // After a stop it is rebuilt from the key, also for steps that were lost: a burned row stays in later ones.
        let noise =
            mechanism.noise(layout.dim(), first, generator).map_err(|error| TrainError::Run(error.to_string()))?;
        let coordinates = settled.ranks.shard().map(|shard| shard.own.len());
        let (step, mut state) = step_loop::step_of(run, mechanism, noise, layers, coordinates, |optimizer, state| {
            (Watched(optimizer), WatchedState { inner: state, watch: None })
        })?;
        if settled.observer.is_some() {
            let method = &run.config.method;
            let (_, shadow) = method.threshold.build(method.count_non_finite)?;
            state.optimizer.watch = Some(GradientWatch::new(run.params.len()));
            state.threshold.watch = Some(ThresholdWatch { counts: vec![], shadow });
        }
        let mut params = run.params.clone();
        let mut average = Average::new(vec![0.0; if run.config.average.is_some() { params.len() } else { 0 }]);
        let (before, lost_steps) = settled.restore::<M>(&mut params, &mut average, &mut state)?;
        let evaluations =
            Evaluations::begin(run, backend, settled.ranks.leads(), settled.written.folder, before.evaluations)?;
        let mut draws = BatchSampler::new(run, run.data.train.len() as u32);
        let mut draw = Draw::default();
        match run.data.train.held() {
            // The shards of the ranks are their shares.
            Some(held) => draws.limit(held.start as u32..held.end as u32),
            None => draw.take_share(settled.ranks.share()),
        }
        let pricing = Pricing::begin(run, &step, &draws, first)?;
        if first > 0 {
            settled.progress.resumed(&Resumed { step: first - lost, lost, evaluations: evaluations.all() });
        }
        let non_finite = NonFinite::begin(settled.written.folder, first - lost);
        Ok(Self {
            settled,
            workers,
            step,
            state,
            params,
            average,
            draws,
            draw,
            pricing,
            evaluations,
            non_finite,
            clock: Clock::after(before.seconds),
            lost_steps,
            ended_early: None,
            done: first,
            stopped: false,
        })
    }

    /// Warns of samples without a finite gradient, before anything is charged.
    fn look_at_first_samples(&mut self) -> Result<(), TrainError> {
        let Settled { run, ref ranks, ref written, .. } = self.settled;
        let looked_at = first_samples(run);
        // Data of null samples alone, or none, leaves no chunk to look at.
        let found = match &*looked_at {
            [] => Ok(0),
            samples => {
                let first = [Chunk { index: 0, samples }];
                self.workers.count_non_finite(&run.data.train, &first, &self.params).map_err(TrainError::from)
            }
        };
        let found = agree(ranks.group(), found)?;
        if ranks.leads() && written.place.first == 0 {
            tell_first(found, looked_at.len(), self.settled.progress);
        }
        Ok(())
    }

    /// Writes the plan, and releases the number of samples without a finite gradient if the run does.
    fn release_non_finite(&mut self) -> Result<Option<crate::NonFiniteCount>, TrainError> {
        let Settled { run, ranks, generator, written, progress, observer, .. } = &mut self.settled;
        agree(
            ranks.group(),
            written.folder.map_or(Ok(()), |folder| written.plan.write(folder).map_err(TrainError::from)),
        )?;
        let counted = non_finite_release::released(
            run,
            ranks,
            &mut self.workers,
            (&self.params, written.place.first),
            generator,
            Files { folder: written.folder, plan: &written.plan, checkpoint: written.checkpoint.as_deref_mut() },
            *progress,
            observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer),
        )?;
        self.clock.start();
        Ok(counted)
    }

    /// The steps that are left, by the number of steps after each.
    fn left(&mut self) -> Range<u32> {
        let Place { first, lost, .. } = self.settled.written.place;
        let steps = self.settled.run.terms.steps;
        // An early end may have been charged, and its outputs lost. What it charged beyond was not taken.
        let taken = first - lost;
        self.ended_early = (taken < steps && self.evaluations.have_stalled()).then_some(taken);
        if self.ended_early.is_some() {
            self.lost_steps -= lost;
            return first..first;
        }
        // A stop may have lost all steps that were left.
        if first == steps && lost > 0 { first..first + 1 } else { first + 1..steps + 1 }
    }

    /// Takes the step after which `done` are done, and tells what became of it.
    fn take(&mut self, done: u32) -> Result<(), TrainError> {
        self.done = done;
        if done > self.settled.written.place.first {
            let (drawn, without) = self.one_step()?;
            self.non_finite.add(drawn, without, self.settled.progress);
            in_range(done, &self.params)?;
            let Self { settled: Settled { run, .. }, pricing, step, draws, average, params, .. } = self;
            pricing.count(run, step, draws, done - 1)?;
            let (terms, config) = (&run.terms, &run.config);
            let weigh =
                |averaging: Averaging| averaging.weight(done - 1, terms.steps, terms.learning_rate.at(done - 1));
            if let Some(weight) = config.average.and_then(weigh) {
                average.add(params, weight).expect("the mean has the parameters' length, and rates are finite");
            }
        }
        self.tell(done);
        if self.evaluations.is_due(done) {
            self.evaluate(done)?;
        }
        Ok(())
    }

    /// Tells how far the run is, from time to time.
    fn tell(&mut self, done: u32) {
        let Self { settled: Settled { run, progress, .. }, clock, pricing, step, draws, .. } = self;
        let steps = run.terms.steps;
        if clock.is_time(done, steps) {
            let seconds = clock.seconds();
            let samples_per_second = f64::from(done) * f64::from(run.config.batch_size) / seconds;
            let at = StepReport { step: done, steps, seconds, samples_per_second };
            progress.step(&at, &mut |first| pricing.of_first(run, step, draws, first));
        }
    }

    /// Saves the state if it is time to, and returns true if no step follows.
    fn is_over(&mut self) -> Result<bool, TrainError> {
        let done = self.done;
        let Settled { run, ref ranks, ref written, ref mut progress, .. } = self.settled;
        let steps = run.terms.steps;
        let is_due = written.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due());
        let is_stop = done < steps && self.ended_early.is_none() && progress.stop();
        let [is_stop, is_due] = ranks.any([is_stop, is_due])?;
        self.stopped = is_stop;
        let is_last = self.stopped || self.ended_early.is_some() || done == steps;
        if is_last || is_due {
            self.save(done, is_last)?;
        }
        if self.stopped {
            self.settled.written.ledger.store_mut().settle(steps, done)?;
        }
        Ok(self.stopped || self.ended_early.is_some())
    }

    fn save(&mut self, done: u32, is_last: bool) -> Result<(), TrainError> {
        let Self { settled, params, average, state, evaluations, clock, .. } = self;
        let Settled { ranks, written, progress, .. } = settled;
        let all = self.non_finite.with_counts(ranks.summed(self.non_finite.counts())?);
        if is_last {
            all.tell(*progress);
        }
        let mut write = |folder| all.write(folder).and_then(|()| evaluations.write_best(folder));
        agree(ranks.group(), written.folder.map_or(Ok(()), &mut write))?;
        ranks.save(params, average, state, |memory| {
            let Some(checkpoint) = &mut written.checkpoint else { return Ok(()) };
            let recorded = written.recording.as_mut().map_or(Ok(None), Recording::sync)?;
            Ok(checkpoint.save(done, clock.seconds(), evaluations.all(), recorded, memory)?)
        })?;
        if written.checkpoint.is_some() {
            progress.saved(done);
        }
        Ok(())
    }
}

impl Settled<'_, '_> {
    /// Gives a run that goes on the state of the earlier process, on all ranks. Returns what was told before the stop, and the steps lost.
    fn restore<M: Trained>(
        &mut self,
        params: &mut [f32],
        average: &mut Average<Vec<f32>>,
        state: &mut State<M, WatchedState<OptimizerState>>,
    ) -> Result<(Moment, u32), TrainError> {
        let Self { run, ranks, written, .. } = self;
        if let Some(saved) = ranks.saved(written.checkpoint.as_mut().and_then(|checkpoint| checkpoint.take_saved()))? {
            let restored = match ranks.shard() {
                None => saved.restore(&mut (&mut *params, (&mut *average, &mut *state))),
                Some(shard) => {
                    let state = WholeState::to_restore(state, shard);
                    saved.restore(&mut (&mut *params, (&mut *average, state)))
                }
            };
            let restored = restored.map_err(|error| match &written.checkpoint {
                Some(checkpoint) => checkpoint.damaged(error),
                None => TrainError::Run(format!("the state of rank 0: {error}")),
            });
            agree(ranks.group(), restored)?;
        }
        ranks.save(params, average, state, |memory| {
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
