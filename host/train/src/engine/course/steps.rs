//! The course of a run: its steps in order, and what is told and saved after each.

use super::begin::Settled;
use super::state::Engine;
use super::step::in_range;
use crate::engine::non_finite::{first_samples, tell_first};
use crate::engine::non_finite_release::{self, Files};
use crate::engine::observe::Observer;
use crate::engine::ranks::group::agree;
use crate::engine::step_loop::{self, StepLoop, Sum};
use crate::engine::trained::Trained;
use crate::engine::worker::Accumulate;
use crate::state::checkpoint::Place;
use crate::state::recording::Recording;
use crate::{NonFiniteCount, Outcome, RunEvent, TrainError};
use damper_core::average::Averaging;
use damper_data::Chunk;
use std::ops::Range;

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

impl<M, W> Engine<'_, '_, '_, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    Sum: From<Vec<M::Word>>,
{
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
    fn release_non_finite(&mut self) -> Result<Option<NonFiniteCount>, TrainError> {
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
        if let Some(at) = clock.report(done, run) {
            let epsilon = &mut |first| pricing.of_first(run, step, draws, first);
            progress.on_event(RunEvent::Stepped { at, epsilon });
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
            progress.on_event(RunEvent::Saved(done));
        }
        Ok(())
    }
}
