//! The released model of a run.

use damper_edit::scale_output;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TrainedError, set_finished, set_label_scale, set_run, set_unfinished};
use damper_train::{Run, set_data_names};

/// Returns `model.onnx`: the model of `run` with the trained parameters `params`, flat, in the gradient graph's order.
///
/// Adapters are merged unless they are kept. Its metadata has the names of columns and classes, and `damper.run`:
/// `private`, `simulation` or `not private`. If labels were scaled, its output is in their unit.
///
/// # Errors
///
/// `params` are not of this run.
pub fn trained_model(run: &Run, params: &[f32]) -> Result<ModelProto, TrainedError> {
    let mut model = run.trained(params)?;
    set_run(&mut model, &run.kind().to_string());
    set_finished(&mut model);
    set_data_names(&mut model, &run.data.names);
    let scale = run.data.train.label_scale().filter(|scale| *scale != (0.0, 1.0));
    if let (Some((mean, std)), Some(output)) = (scale, &run.model.derive.output)
        && scale_output(&mut model, output, mean, std)
    {
        set_label_scale(&mut model, mean, std);
    }
    Ok(model)
}

/// Returns the model of a run that was stopped after `steps` of `planned` steps. `damper.unfinished` in its metadata
/// states this.
#[must_use]
pub fn unfinished_model(mut model: ModelProto, steps: u32, planned: u32) -> ModelProto {
    set_unfinished(&mut model, steps, planned);
    model
}
