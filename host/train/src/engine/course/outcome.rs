//! The end of a run.

use super::begin::Settled;
use super::state::Engine;
use crate::engine::step_loop::Sum;
use crate::engine::trained::Trained;
use crate::engine::worker::Accumulate;
use crate::plan::held_out::steps_between;
use crate::plan::run_plan::recorded;
use crate::{Independence, Outcome, TrainError};
use damper_budget::evaluations_until;
use damper_core::threshold::Threshold;

impl<M, W> Engine<'_, '_, '_, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    Sum: From<Vec<M::Word>>,
{
    /// Settles the price, and gives the outcome.
    pub(super) fn end(mut self) -> Result<Outcome, TrainError> {
        self.count_early_end()?;
        if let Some(recording) = self.settled.written.recording.take().filter(|_| !self.stopped) {
            recording.finish()?;
        }
        let Self { settled, workers, step, state, params, average, pricing, mut evaluations, clock, .. } = self;
        let Settled { run, backend, written, .. } = settled;
        let config = &run.config;
        let (mut class_metrics, mut last_iterate) = (None, None);
        if !self.stopped {
            (class_metrics, last_iterate) = evaluations.at_end(run, &params, average.mean())?;
        }
        let steps = run.terms.steps;
        let [events, held_out] = pricing.counted();
        let planned = written.plan.events.parts();
        let recorded = recorded(config, &run.terms, events, held_out, [planned.normalize, planned.non_finite]);
        let (evaluations, best) = evaluations.into_best(self.ended_early.is_some());
        Ok(Outcome {
            class_metrics,
            last_iterate,
            params: average.mean().map_or_else(|| params.clone(), <[f32]>::to_vec),
            steps: if self.ended_early.is_some() { steps } else { written.ledger.charged_steps() },
            stopped: self.stopped,
            ended_early: self.ended_early,
            best,
            lost_steps: self.lost_steps,
            recorded,
            seconds: clock.seconds(),
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
            clip: step.slots().threshold.clip(&state.threshold),
        })
    }

    /// When a run ends early follows from what was released, and its price was fixed before: that of all steps.
    fn count_early_end(&mut self) -> Result<(), TrainError> {
        let Some(taken) = self.ended_early else { return Ok(()) };
        let Self { settled: Settled { run, written, .. }, step, draws, pricing, evaluations, .. } = self;
        let (first, steps) = (written.place.first, run.terms.steps);
        written.ledger.store_mut().settle(steps, steps)?;
        for at in taken.max(first)..steps {
            pricing.count(run, step, draws, at)?;
        }
        if let Some(metrics) = &run.private_metrics {
            let until = evaluations_until(first, steps, steps_between(&run.config, run.terms.rate));
            let counted = until.max(evaluations.all().len() as u32);
            (counted..metrics.releases).for_each(|_| pricing.count_evaluation());
        }
        Ok(())
    }
}
