//! The model that a run releases.

use damper_onnx::pb::ModelProto;
use damper_onnx::{TrainedError, set_finished, set_run, set_unfinished, write_trained};
use damper_train::Run;

/// `model.onnx`: the model of `run` with the trained parameters `params`, flat, in the gradient graph's order, and `damper.run` in
/// its metadata: `private` or `simulation`.
///
/// # Errors
///
/// `params` are not of this run.
pub fn trained_model(run: &Run, params: &[f32]) -> Result<ModelProto, TrainedError> {
    let mut at = 0;
    let parts = run.grad.parameters.iter().map(|spec| {
        let from = at;
        at += spec.elements(1);
        (spec.name.as_str(), params.get(from..at).unwrap_or_default())
    });
    let mut model = write_trained(&run.model, &parts.collect::<Vec<_>>())?;
    set_run(&mut model, &run.kind().to_string());
    set_finished(&mut model);
    Ok(model)
}

/// The model of a run that was stopped after `steps` of `planned` steps: `damper.unfinished` in its metadata says so.
#[must_use]
pub fn unfinished_model(mut model: ModelProto, steps: u32, planned: u32) -> ModelProto {
    set_unfinished(&mut model, steps, planned);
    model
}
