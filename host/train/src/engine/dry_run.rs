//! The dry run of all that a run needs, on synthetic samples, before anything is charged.

use crate::engine::frozen;
use crate::engine::rehearsal::{Made, Rehearsed, independence, made_up, self_test};
use crate::engine::step_loop::graph_of;
use crate::engine::worker::{OUTPUTS, plan};
use crate::outcome::evaluate::Evaluator;
use crate::{Run, TestMetrics, TrainError};
use damper_runtime::{Backend, BackendError, open};

/// Goes through all that a run needs of its backend and its model on made-up numbers: gradients, clipped sums, figures of held-out
/// samples, and the model that it writes. Whatever fails here would fail after something was charged.
///
/// # Errors
///
/// The backend cannot run the network or computes it wrong, or the trained model cannot be made.
pub fn rehearse(run: &Run) -> Result<(), TrainError> {
    let backend = open(run.config.backend)?;
    rehearse_on(run, backend.as_ref()).map(|_| ())
}

/// [`rehearse`] on an open backend.
pub(crate) fn rehearse_on(run: &Run, backend: &dyn Backend) -> Result<Rehearsed, TrainError> {
    let (grad, prefixes) = graph_of(run);
    self_test(backend, grad, prefixes, run.model.physical_batch, &run.model.params)?;
    let rehearsed = frozen::rehearsed(run, backend, of_gradients(run, backend)?)?;
    check_evaluation(run, backend)?;
    check_result(run)?;
    Ok(rehearsed)
}

/// Loads the graph that held-out samples are evaluated by, if they are.
pub(crate) fn check_evaluation(run: &Run, backend: &dyn Backend) -> Result<(), TrainError> {
    if let Some(split) = run.data.test.as_ref().filter(|_| run.config.test_metrics != TestMetrics::None) {
        Evaluator::new(backend, run, split)?;
    }
    Ok(())
}

/// The part of a rehearsal that loads the run's own graph, for its own physical batch.
pub(crate) fn of_gradients(run: &Run, backend: &dyn Backend) -> Result<Rehearsed, BackendError> {
    if run.model.clipped.is_none() {
        return independence(backend, &run.model.grad, &OUTPUTS, run.model.physical_batch, &run.model.params);
    }
    let (grad, prefixes) = graph_of(run);
    let (model, plan) = plan(grad, prefixes, run.model.physical_batch);
    let made = made_up(grad, &plan, &run.model.params);
    let mut norms = vec![];
    let inputs: Vec<_> = made.iter().map(Made::input).collect();
    backend.load(&model, &plan)?.run(&inputs, &mut |outputs| norms.extend_from_slice(outputs[0]))?;
    let none_is_finite = norms.iter().all(|norm| !norm.is_finite());
    Ok(Rehearsed { none_is_finite, ..Rehearsed::default() })
}

/// Makes the model that the run will write, of the initial parameters.
pub(crate) fn check_result(run: &Run) -> Result<(), TrainError> {
    let made = run.trained(&run.model.params);
    made.map(drop).map_err(|error| TrainError::Run(format!("the trained model cannot be written: {error}")))
}
