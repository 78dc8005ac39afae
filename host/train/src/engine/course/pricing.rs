//! The privacy cost of the steps so far, and of later steps.

use crate::engine::odometer::Odometer;
use crate::engine::sampler::BatchSampler;
use crate::engine::trained::Trained;
use crate::engine::worker::RunStep;
use crate::plan::held_out::steps_between;
use crate::{Run, TrainError};
use damper_accounting::CorrelatedRun;
use damper_budget::evaluations_until;
use damper_core::accounting::SampledGaussian;
use damper_core::error::ConfigError;

/// Accumulates the privacy cost of a run's steps.
pub(super) struct Pricing {
    spent: Odometer,
    /// The single event that all steps of correlated noise form.
    correlated: Option<SampledGaussian>,
}

impl Pricing {
    /// Starts with the cost of the first `first` steps, which an earlier process took or lost.
    pub(super) fn begin<M: Trained, O: Clone>(
        run: &Run,
        step: &RunStep<'_, M, O>,
        draws: &BatchSampler,
        first: u32,
    ) -> Result<Self, TrainError> {
        let correlated =
            run.price.terms.correlated.as_ref().map(CorrelatedRun::event).transpose()?.map(|(event, _)| event);
        let mut begun = Self { spent: Odometer::new(run)?, correlated };
        for at in 0..first {
            begun.count(run, step, draws, at)?;
        }
        let evaluations =
            evaluations_until(first, run.price.terms.steps, steps_between(&run.config, run.price.terms.rate));
        (0..evaluations).for_each(|_| begun.spent.count_evaluation());
        Ok(begun)
    }

    /// Returns the event that starts at step `at`, such as a draw or an epoch, if any.
    fn event<M: Trained, O: Clone>(
        correlated: Option<SampledGaussian>,
        run: &Run,
        step: &RunStep<'_, M, O>,
        draws: &BatchSampler,
        at: u32,
    ) -> Result<Option<SampledGaussian>, ConfigError> {
        let steps = draws.event(at);
        if correlated.is_some() {
            return Ok(steps.and(correlated));
        }
        let steps = steps.into_iter().flatten();
        let events = steps.map(|at| step.event_at(at, run.priced_rate())).collect::<Result<Vec<_>, _>>()?;
        Ok(events.into_iter().min_by(|a, b| a.multiplier().total_cmp(&b.multiplier())))
    }

    /// Counts step `at`.
    pub(super) fn count<M: Trained, O: Clone>(
        &mut self,
        run: &Run,
        step: &RunStep<'_, M, O>,
        draws: &BatchSampler,
        at: u32,
    ) -> Result<(), ConfigError> {
        self.spent.count(Self::event(self.correlated, run, step, draws, at)?);
        Ok(())
    }

    /// Counts a release from held-out rows.
    pub(super) fn count_evaluation(&mut self) {
        self.spent.count_evaluation();
    }

    /// Returns ε of the first `first` steps, or of the counted steps if they are more.
    pub(super) fn of_first<M: Trained, O: Clone>(
        &mut self,
        run: &Run,
        step: &RunStep<'_, M, O>,
        draws: &BatchSampler,
        first: u32,
    ) -> f64 {
        let correlated = self.correlated;
        self.spent.of_first(first, |at| Self::event(correlated, run, step, draws, at))
    }

    /// Returns the counted events and the releases from held-out rows, each with its number of repetitions.
    pub(super) fn counted(&self) -> [&[(SampledGaussian, u64)]; 2] {
        [self.spent.events(), self.spent.evaluations()]
    }
}
