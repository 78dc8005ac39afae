//! Rewrites a model for a plan: its inputs and outputs in the plan's order, and a fixed batch size.
//!
//! Every runtime then infers static shapes. So its bits depend on the run's single batch shape alone.

use super::backend::{BackendError, SessionSpec, bound_shape, check_plan};
use damper_onnx::{Dim, TensorSpec};
use damper_onnx::{Extent, data_type, make_value_info, pb};

/// Binds `model` to `plan`. Drops intermediate shapes because they may name a symbolic batch.
pub(super) fn bind(model: &pb::ModelProto, plan: &SessionSpec) -> Result<pb::ModelProto, BackendError> {
    check_plan(plan)?;
    let mut model = model.clone();
    let graph =
        model.graph.as_mut().ok_or_else(|| BackendError("the ONNX model has no graph: export it again".into()))?;

    let has_default = |graph: &pb::GraphProto, name: &str| graph.initializer.iter().any(|init| init.name == name);
    for input in &graph.input {
        if !has_default(graph, &input.name) && plan.inputs.iter().all(|spec| spec.name != input.name) {
            return Err(BackendError(format!("the model needs an input '{}' that the plan does not give", input.name)));
        }
    }
    let mut inputs = Vec::with_capacity(plan.inputs.len());
    for spec in &plan.inputs {
        let found = graph.input.iter().find(|input| input.name == spec.name).ok_or_else(|| {
            BackendError(format!("the model has no input '{}'; it has {}", spec.name, names(&graph.input)))
        })?;
        check_type(found, spec)?;
        inputs.push(value_info(spec, plan.batch));
    }
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    for spec in &plan.outputs {
        let found = graph.output.iter().find(|output| output.name == spec.name).ok_or_else(|| {
            BackendError(format!("the model has no output '{}'; it has {}", spec.name, names(&graph.output)))
        })?;
        check_type(found, spec)?;
        outputs.push(value_info(spec, plan.batch));
    }
    graph.initializer.retain(|init| plan.inputs.iter().all(|spec| spec.name != init.name));
    graph.input = inputs;
    graph.output = outputs;
    graph.value_info.clear();
    Ok(model)
}

fn names(values: &[pb::ValueInfoProto]) -> String {
    values.iter().map(|value| format!("'{}'", value.name)).collect::<Vec<_>>().join(", ")
}

/// Compares element type and fixed extents. A runtime would detect a mismatch late or never.
fn check_type(found: &pb::ValueInfoProto, spec: &TensorSpec) -> Result<(), BackendError> {
    use pb::tensor_shape_proto::dimension::Value;
    let Some(pb::type_proto::Value::TensorType(tensor)) = found.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
        return Ok(());
    };
    if tensor.elem_type != 0 && tensor.elem_type != data_type(spec.dtype) as i32 {
        return Err(BackendError(format!(
            "'{}' has the ONNX element type {} in the model where the plan says {:?}: export it as {:?}",
            spec.name, tensor.elem_type, spec.dtype, spec.dtype
        )));
    }
    let Some(shape) = &tensor.shape else {
        return Ok(());
    };
    let declared: Vec<Option<i64>> = shape
        .dim
        .iter()
        .map(|dim| match dim.value {
            Some(Value::DimValue(extent)) => Some(extent),
            _ => None,
        })
        .collect();
    let fits = declared.len() == spec.shape.len()
        && declared.iter().zip(&spec.shape).all(|(declared, planned)| match (declared, planned) {
            (Some(declared), Dim::Fixed(planned)) => *declared == *planned as i64,
            _ => true,
        });
    if !fits {
        return Err(BackendError(format!(
            "'{}' has the shape {declared:?} in the model where the plan says {:?}: export the model for that shape",
            spec.name, spec.shape
        )));
    }
    Ok(())
}

pub(super) fn value_info(spec: &TensorSpec, batch: usize) -> pb::ValueInfoProto {
    let shape: Vec<_> = bound_shape(spec, batch).into_iter().map(Extent::Fixed).collect();
    make_value_info(&spec.name, spec.dtype, &shape)
}
