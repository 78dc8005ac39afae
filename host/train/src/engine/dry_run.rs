//! The dry run of everything that a run needs, on synthetic samples, before anything is charged.

use crate::engine::frozen;
use crate::engine::rehearsal::{Made, Rehearsed, independence, made_up, self_test};
use crate::engine::step_loop::graph_of;
use crate::engine::worker::plan;
use crate::outcome::evaluate::Evaluator;
use crate::{Run, TestMetrics, TrainError};
use damper_runtime::{Backend, open};

/// Tests the backend and the model of a run on synthetic samples: gradients, clipped sums, figures of held-out samples,
/// and the released model. It finds failures that would otherwise occur after something was charged.
///
/// # Errors
///
/// The backend cannot run the network or computes it wrong, or the trained model cannot be built.
pub fn rehearse(run: &Run) -> Result<(), TrainError> {
    let backend = open(run.config.backend)?;
    rehearse_on(run, backend.as_ref()).map(|_| ())
}

/// Does the same as [`rehearse`] on an open backend.
pub(crate) fn rehearse_on(run: &Run, backend: &dyn Backend) -> Result<Rehearsed, TrainError> {
    let (grad, prefixes) = graph_of(run);
    self_test(backend, grad, prefixes, run.model.physical_batch, &run.model.params)?;
    let rehearsed = of_gradients(run, backend)?;
    check_evaluation(run, backend)?;
    check_result(run)?;
    Ok(rehearsed)
}

/// Loads the graph that evaluates held-out samples, if they are evaluated.
pub(crate) fn check_evaluation(run: &Run, backend: &dyn Backend) -> Result<(), TrainError> {
    if let Some(split) = run.data.test.as_ref().filter(|_| run.config.test_metrics != TestMetrics::None) {
        Evaluator::new(backend, run, split)?;
    }
    Ok(())
}

/// Dry run of the run's own graph, for its own physical batch.
pub(crate) fn of_gradients(run: &Run, backend: &dyn Backend) -> Result<Rehearsed, TrainError> {
    let (values, of_frozen) = frozen::rehearse(run, backend)?.unzip();
    let (grad, prefixes) = graph_of(run);
    let (model, plan) = plan(grad, prefixes, run.model.physical_batch);
    let make = || {
        let mut made = made_up(grad, &plan, &run.model.params);
        // Data inputs come first. A frozen part computes them from synthetic samples.
        made.iter_mut().zip(values.iter().flatten()).for_each(|(made, value)| made.clone_from(value));
        made
    };
    let of_both = |gradients| frozen::both(of_frozen, gradients);
    if run.model.clipped.is_none() {
        return Ok(of_both(independence(backend, &model, &plan, &make)?));
    }
    let made = make();
    let mut norms = vec![];
    let inputs: Vec<_> = made.iter().map(Made::input).collect();
    backend.load(&model, &plan)?.run(&inputs, &mut |outputs| norms.extend_from_slice(outputs[0]))?;
    let none_is_finite = norms.iter().all(|norm| !norm.is_finite());
    Ok(of_both(Rehearsed { none_is_finite, ..Rehearsed::default() }))
}

/// Builds the model that the run will write, from the initial parameters.
pub(crate) fn check_result(run: &Run) -> Result<(), TrainError> {
    let made = run.trained(&run.model.params);
    made.map(drop).map_err(|error| TrainError::Run(format!("the trained model cannot be written: {error}")))
}
