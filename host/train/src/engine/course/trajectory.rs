//! The trajectory of the parameters, which runs with and without privacy share.

use super::clock::Clock;
use super::evaluations::{Evaluations, diverged};
use crate::engine::iterates::Iterates;
use crate::engine::non_finite::NonFinite;
use crate::plan::weights::LARGEST;
use crate::state::checkpoint::Moment;
use crate::{EndCause, Ended, Evaluation, Independence, Outcome, Progress, Run, RunEvent, TrainError};
use damper_accounting::Recorded;
use damper_runtime::Backend;
use std::path::Path;

/// A run in progress.
pub(crate) struct Trajectory<'a> {
    run: &'a Run,
    pub(crate) iterates: Iterates,
    pub(crate) evaluations: Evaluations<'a>,
    pub(crate) non_finite: NonFinite,
    pub(crate) clock: Clock,
    /// Number of completed steps.
    pub(crate) done: u32,
    /// The step after which the run ends early, if it does.
    pub(crate) ended_early: Option<u32>,
    pub(crate) stopped: bool,
}

/// The part of an outcome that differs between the kinds of runs.
pub(crate) struct Ending<'a> {
    pub(crate) backend: &'a dyn Backend,
    /// Number of threads.
    pub(crate) workers: usize,
    /// Charged steps, and those among them that a stop lost.
    pub(crate) steps: u32,
    pub(crate) lost_steps: u32,
    pub(crate) recorded: Recorded,
    /// The clip of the next step.
    pub(crate) clip: f32,
}

impl<'a> Trajectory<'a> {
    /// Continues after `taken` steps and the progress `before` of an earlier process, with its files in `folder`. Only
    /// one rank of a run `evaluates`.
    pub(crate) fn begin(
        run: &'a Run,
        iterates: Iterates,
        backend: &dyn Backend,
        evaluates: bool,
        folder: Option<&Path>,
        before: Moment,
        taken: u32,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            run,
            iterates,
            evaluations: Evaluations::begin(run, backend, evaluates, folder, before.evaluations)?,
            non_finite: NonFinite::begin(folder, taken),
            clock: Clock::after(before.seconds),
            done: taken,
            ended_early: None,
            stopped: false,
        })
    }

    /// Ends the run early after `taken` steps, if its evaluations stopped improving.
    pub(crate) fn end_if_stalled(&mut self, taken: u32) {
        self.ended_early = (taken < self.run.price.terms.steps && self.evaluations.have_stalled()).then_some(taken);
    }

    /// Checks the parameters after the current step, and adds them to the mean.
    pub(crate) fn follow(&mut self) -> Result<(), TrainError> {
        in_range(self.done, &self.iterates.params)?;
        let (step, terms) = (self.done - 1, &self.run.price.terms);
        let Iterates { params, average } = &mut self.iterates;
        let averaging = self.run.config.average;
        let weight = averaging.and_then(|averaging| averaging.weight(step, terms.steps, terms.learning_rate.at(step)));
        if let Some(weight) = weight {
            average.add(params, weight).expect("the mean has the parameters' length, and rates are finite");
        }
        Ok(())
    }

    /// Sends a progress event, if one is due.
    pub(crate) fn tell(&mut self, progress: &mut dyn Progress, epsilon: &mut dyn FnMut(u32) -> f64) {
        if let Some(at) = self.clock.report(self.done, self.run) {
            progress.on_event(RunEvent::Stepped { at, epsilon });
        }
    }

    /// Returns the evaluation with these figures, after the completed steps.
    pub(crate) fn evaluation(&self, (loss, accuracy): (f64, Option<f64>), epsilon: f64) -> Evaluation {
        let epoch = f64::from(self.done) * self.run.price.terms.rate.as_f64();
        Evaluation { step: self.done, epoch, epsilon, loss, accuracy }
    }

    /// Adds an evaluation, and decides whether the run ends early.
    pub(crate) fn evaluated(&mut self, at: Evaluation, progress: &mut dyn Progress) -> Result<(), TrainError> {
        progress.on_event(RunEvent::Evaluated(at));
        self.evaluations.push(at, self.iterates.result())?;
        self.end_if_stalled(self.done);
        Ok(())
    }

    /// Returns true if this was the last step.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped || self.ended_early.is_some() || self.done == self.run.price.terms.steps
    }

    /// Sends the end event and returns the outcome.
    pub(crate) fn outcome(mut self, ending: Ending<'_>, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
        let Iterates { params, average } = &self.iterates;
        let (mut class_metrics, mut last_iterate) = (None, None);
        if !self.stopped {
            (class_metrics, last_iterate) = self.evaluations.at_end(self.run, params, average.mean())?;
        }
        let params = self.iterates.result().to_vec();
        let (evaluations, best) = self.evaluations.into_best(self.ended_early.is_some());
        let Ending { backend, workers, steps, lost_steps, recorded, clip } = ending;
        progress.on_event(RunEvent::Ended(match (self.stopped, self.ended_early) {
            (true, _) => Ended { step: self.done, cause: EndCause::Stopped },
            (false, Some(step)) => Ended { step, cause: EndCause::Early },
            (false, None) => Ended { step: self.done, cause: EndCause::Complete },
        }));
        Ok(Outcome {
            class_metrics,
            last_iterate,
            params,
            steps,
            stopped: self.stopped,
            ended_early: self.ended_early,
            best,
            lost_steps,
            recorded,
            seconds: self.clock.seconds(),
            evaluations,
            independence: Independence::NotTested,
            difference: None,
            host_nodes: backend.host_nodes(),
            is_recorded: false,
            normalize: None,
            non_finite: None,
            backend: backend.name(),
            backend_version: backend.version(),
            operators: backend.operators(),
            workers,
            clip,
        })
    }
}

/// Checks the parameters that step `number` released. Optimizers saturate, so a diverging parameter is large, not
/// infinite.
fn in_range(number: u32, params: &[f32]) -> Result<(), TrainError> {
    if params.iter().all(|x| x.abs() <= LARGEST) {
        return Ok(());
    }
    Err(diverged(number, "a released parameter is"))
}
