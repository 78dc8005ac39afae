//! Evaluations on held-out rows, with their effects: the best parameters and an early end.

use crate::engine::worker::ParamLayout;
use crate::outcome::best::BestParams;
use crate::outcome::class_metrics::ClassMetrics;
use crate::outcome::evaluate::Evaluator;
use crate::plan::held_out::steps_between;
use crate::plan::weights::LARGEST;
use crate::{Evaluation, LastIterate, Run, TestMetrics, TrainConfig, TrainError};
use damper_core::count::held_out::HeldOutSums;
use damper_data::Split;
use damper_runtime::Backend;
use std::path::Path;

/// The evaluations of a run.
pub(crate) struct Evaluations<'a> {
    config: &'a TrainConfig,
    layout: ParamLayout,
    /// The held-out rows, on the rank that evaluates them.
    evaluator: Option<(Evaluator, &'a Split)>,
    /// Number of steps of the run, and of steps between two evaluations. The end is always evaluated.
    steps: u32,
    every: Option<u32>,
    all: Vec<Evaluation>,
    best: BestParams,
}

impl<'a> Evaluations<'a> {
    /// Continues after the evaluations `before` of an earlier process. Only one rank of a run `evaluates`.
    pub(crate) fn begin(
        run: &'a Run,
        backend: &dyn Backend,
        evaluates: bool,
        folder: Option<&Path>,
        before: Vec<Evaluation>,
    ) -> Result<Self, TrainError> {
        let config = &run.config;
        let evaluator = match &run.data.test {
            Some(split) if evaluates && config.test_metrics != TestMetrics::None => {
                Some((Evaluator::new(backend, run, split)?, split))
            }
            _ => None,
        };
        let best = BestParams::begin(folder, &before, run.model.params.len());
        let (layout, steps) = (ParamLayout::new(&run.model.grad), run.price.terms.steps);
        Ok(Self {
            config,
            layout,
            evaluator,
            steps,
            every: steps_between(config, run.price.terms.rate),
            all: before,
            best,
        })
    }

    /// Returns the evaluations so far.
    pub(crate) fn all(&self) -> &[Evaluation] {
        &self.all
    }

    /// Returns true if an evaluation follows after `done` steps.
    pub(crate) fn is_due(&self, done: u32) -> bool {
        done == self.steps || self.every.is_some_and(|every| done.is_multiple_of(every))
    }

    /// Returns true if the run must end early.
    pub(crate) fn have_stalled(&self) -> bool {
        self.config.stop_early.is_some_and(|patience| Evaluation::has_stalled(&self.all, patience.get()))
    }

    /// Returns loss and accuracy of these parameters. Returns `None` on a rank that does not evaluate, or without
    /// held-out rows.
    pub(crate) fn exact(&mut self, params: &[f32]) -> Result<Option<(f64, Option<f64>)>, TrainError> {
        let Some((evaluator, split)) = &mut self.evaluator else { return Ok(None) };
        Ok(Some(evaluator.evaluate(split, &self.layout, params)?))
    }

    /// Returns the sums that private figures are released from, and the number of rows. Otherwise as
    /// [`exact`](Self::exact).
    pub(crate) fn sums(
        &mut self,
        params: &[f32],
        loss_bound: f32,
    ) -> Result<Option<(HeldOutSums<2>, usize)>, TrainError> {
        let Some((evaluator, split)) = &mut self.evaluator else { return Ok(None) };
        Ok(Some((evaluator.sums(split, &self.layout, params, loss_bound)?, split.len())))
    }

    /// Adds an evaluation of these parameters.
    pub(crate) fn push(&mut self, at: Evaluation, params: &[f32]) -> Result<(), TrainError> {
        self.all.push(at);
        if self.evaluator.is_some() {
            self.best.keep(self.config, &self.all, params);
        }
        if at.loss.is_finite() { Ok(()) } else { Err(diverged(at.step, "the held-out loss is")) }
    }

    /// Writes the best parameters into the private folder. Call it before saving a state that has their evaluation.
    pub(crate) fn write_best(&mut self, folder: &Path) -> Result<(), TrainError> {
        self.best.write(folder)
    }

    /// Returns the evaluations, and the best parameters of a run that `ended_early`.
    pub(crate) fn into_best(self, ended_early: bool) -> (Vec<Evaluation>, Option<Vec<f32>>) {
        let best = if ended_early { self.best.of_early_end(&self.all) } else { None };
        (self.all, best)
    }

    /// Returns the exact figures of the end of a run: figures by class, and those of the last iterate if the result is
    /// the `mean`.
    #[allow(clippy::type_complexity)] // Two figures.
    pub(crate) fn at_end(
        &mut self,
        run: &Run,
        params: &[f32],
        mean: Option<&[f32]>,
    ) -> Result<(Option<ClassMetrics>, Option<LastIterate>), TrainError> {
        let Some((evaluator, split)) =
            self.evaluator.as_mut().filter(|_| run.config.test_metrics == TestMetrics::Exact)
        else {
            return Ok((None, None));
        };
        // These figures belong to the last evaluation, so they are computed before `last_iterate`.
        let found = evaluator.class_metrics(split, &self.layout, mean.unwrap_or(params))?;
        let by_class = found.map(|found| found.named(run.data.names.classes.as_deref()));
        Ok((by_class, evaluator.last_iterate(split, &self.layout, params, mean)?))
    }
}

pub(super) fn diverged(step: u32, what: &'static str) -> TrainError {
    TrainError::Diverged { step, what, limit: LARGEST }
}
