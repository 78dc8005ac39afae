//! The steps of a run in order, with the events and saved states after each.

use super::settled::Settled;
use super::state::Engine;
use super::trajectory::Trajectory;
use crate::engine::non_finite::{first_samples, tell_first};
use crate::engine::non_finite_release;
use crate::engine::step_loop::{self, StepLoop, StepSum};
use crate::engine::trained::Trained;
use crate::engine::worker::Accumulate;
use crate::state::checkpoint::Place;
use crate::state::recording::Recording;
use crate::{NonFiniteCount, Outcome, RunEvent, TrainError};
use damper_data::Chunk;
use std::ops::Range;

impl StepLoop for Settled<'_, '_> {
    type End = Outcome;

    fn go<M, W>(self, mechanism: M, workers: W) -> Result<Outcome, TrainError>
    where
        M: Trained,
        W: Accumulate<M>,
        StepSum: From<Vec<M::Word>>,
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
    StepSum: From<Vec<M::Word>>,
{
    /// Warns of samples without a finite gradient, before anything is charged.
    fn look_at_first_samples(&mut self) -> Result<(), TrainError> {
        let Settled { run, ref ranks, ref written, .. } = self.settled;
        let looked_at = first_samples(run);
        // Empty data, or only null samples, gives no chunk to check.
        let found = match &*looked_at {
            [] => Ok(0),
            samples => {
                let first = [Chunk { index: 0, samples }];
                self.workers.count_non_finite(&run.data.train, &first, &self.trajectory.iterates.params)
            }
        };
        let found = ranks.agree(found)?;
        if ranks.leads() && written.place.first == 0 {
            tell_first(found, looked_at.len(), self.settled.progress);
        }
        Ok(())
    }

    /// Writes the plan, and releases the number of samples without a finite gradient if requested.
    fn release_non_finite(&mut self) -> Result<Option<NonFiniteCount>, TrainError> {
        let Settled { ranks, written, .. } = &self.settled;
        ranks.agree(written.folder.map_or(Ok(()), |folder| written.plan.write(folder)))?;
        let counted =
            non_finite_release::released(&mut self.settled, &mut self.workers, &self.trajectory.iterates.params)?;
        self.trajectory.clock.start();
        Ok(counted)
    }

    /// Returns the remaining steps, each by the number of completed steps after it.
    fn left(&mut self) -> Range<u32> {
        let Place { first, lost, .. } = self.settled.written.place;
        let steps = self.settled.run.price.terms.steps;
        // An early end may have been charged with its outputs lost. The steps that it charged in addition were not
        // taken.
        let taken = first - lost;
        self.trajectory.end_if_stalled(taken);
        if self.trajectory.ended_early.is_some() {
            self.lost_steps -= lost;
            return first..first;
        }
        // A stop may have lost all remaining steps.
        if first == steps && lost > 0 { first..first + 1 } else { first + 1..steps + 1 }
    }

    /// Takes the step that completes `done` steps, and reports it.
    fn take(&mut self, done: u32) -> Result<(), TrainError> {
        self.trajectory.done = done;
        if done > self.settled.written.place.first {
            let (added, without) = self.one_step()?;
            self.trajectory.non_finite.add(added, without, self.settled.progress);
            self.trajectory.follow()?;
            let Self { settled: Settled { run, .. }, pricing, step, draws, .. } = self;
            pricing.count(run, step, draws, done - 1)?;
        }
        let Self { settled: Settled { run, progress, .. }, trajectory, pricing, step, draws, .. } = self;
        trajectory.tell(*progress, &mut |first| pricing.of_first(run, step, draws, first));
        if trajectory.evaluations.is_due(done) {
            self.evaluate()?;
        }
        Ok(())
    }

    /// Saves the state if it is due. Returns true if this was the last step.
    fn is_over(&mut self) -> Result<bool, TrainError> {
        let Self { settled: Settled { run, ranks, written, progress, .. }, trajectory, .. } = self;
        let is_due = written.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due());
        let is_stop = !trajectory.is_over() && progress.stop();
        let [is_stop, is_due] = ranks.any([is_stop, is_due])?;
        trajectory.stopped = is_stop;
        let (steps, done, is_over) = (run.price.terms.steps, trajectory.done, trajectory.is_over());
        if is_over || is_due {
            self.save(is_over)?;
        }
        if is_stop {
            self.settled.written.ledger.store_mut().settle(steps, done)?;
        }
        Ok(is_over)
    }

    fn save(&mut self, is_last: bool) -> Result<(), TrainError> {
        let Self { settled: Settled { ranks, written, progress, .. }, trajectory, state, .. } = self;
        let Trajectory { iterates, evaluations, non_finite, clock, done, .. } = trajectory;
        let all = non_finite.with_counts(ranks.summed(non_finite.counts())?);
        if is_last {
            all.tell(*progress);
        }
        let mut write = |folder| all.write(folder).and_then(|()| evaluations.write_best(folder));
        ranks.agree(written.folder.map_or(Ok(()), &mut write))?;
        ranks.save(iterates, state, |memory| {
            let Some(checkpoint) = &mut written.checkpoint else { return Ok(()) };
            let recorded = written.recording.as_mut().map_or(Ok(None), Recording::sync)?;
            Ok(checkpoint.save(*done, clock.seconds(), evaluations.all(), recorded, memory)?)
        })?;
        if written.checkpoint.is_some() {
            progress.on_event(RunEvent::Saved(*done));
        }
        Ok(())
    }
}
