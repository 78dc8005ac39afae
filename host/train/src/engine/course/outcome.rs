//! The end of a run.

use super::settled::Settled;
use super::state::Engine;
use super::trajectory::Ending;
use crate::engine::step_loop::StepSum;
use crate::engine::trained::Trained;
use crate::engine::worker::Accumulate;
use crate::plan::held_out::steps_between;
use crate::plan::run_plan::recorded;
use crate::{Outcome, TrainError};
use damper_budget::evaluations_until;
use damper_core::threshold::Threshold;

impl<M, W> Engine<'_, '_, '_, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// Computes the final privacy cost and returns the outcome.
    pub(super) fn end(mut self) -> Result<Outcome, TrainError> {
        self.count_early_end()?;
        if let Some(recording) = self.settled.written.recording.take().filter(|_| !self.trajectory.stopped) {
            recording.finish()?;
        }
        let Self { settled, workers, step, state, trajectory, pricing, lost_steps, .. } = self;
        let Settled { run, backend, written, progress, .. } = settled;
        let config = &run.config;
        let steps = run.price.terms.steps;
        let [events, held_out] = pricing.counted();
        let planned = written.plan.events.parts();
        let recorded = recorded(config, &run.price.terms, events, held_out, [planned.normalize, planned.non_finite]);
        let steps = if trajectory.ended_early.is_some() { steps } else { written.ledger.charged_steps() };
        let clip = step.slots().threshold.clip(&state.threshold);
        let count = workers.count();
        // Frees the workers first. Their memory is several copies of the parameters, which the outcome needs.
        drop((workers, step, state));
        trajectory.outcome(Ending { backend, workers: count, steps, lost_steps, recorded, clip }, progress)
    }

    /// Charges the steps that an early end skips. The time of an early end follows from released values, and the cost
    /// of all steps was fixed in advance.
    fn count_early_end(&mut self) -> Result<(), TrainError> {
        let Some(taken) = self.trajectory.ended_early else { return Ok(()) };
        let Self { settled: Settled { run, written, .. }, step, draws, pricing, trajectory, .. } = self;
        let (first, steps) = (written.place.first, run.price.terms.steps);
        written.ledger.store_mut().settle(steps, steps)?;
        for at in taken.max(first)..steps {
            pricing.count(run, step, draws, at)?;
        }
        if let Some(metrics) = &run.price.private_metrics {
            let until = evaluations_until(first, steps, steps_between(&run.config, run.price.terms.rate));
            let counted = until.max(trajectory.evaluations.all().len() as u32);
            (counted..metrics.releases).for_each(|_| pricing.count_evaluation());
        }
        Ok(())
    }
}
