//! Session of a model as its file has it.

use super::super::backend::{BackendError, WrittenOutput, WrittenSession, bound_shape};
use super::load::{Form, one_line, runnable};
use damper_onnx::pb::{GraphProto, ModelProto};
use damper_onnx::{TensorRef, TensorSpec};
use tract_onnx::prelude::*;

pub(super) struct TractWritten {
    state: TypedSimpleState,
    /// Shapes of the inputs. `None` for one that the model does not read.
    inputs: Vec<Option<Vec<usize>>>,
}

impl TractWritten {
    pub(super) fn new(model: &ModelProto, inputs: &[TensorSpec]) -> Result<Self, BackendError> {
        let graph = model.graph.as_ref();
        if let Some(op) = graph.and_then(absent) {
            return Err(BackendError(format!("tract has no {op}; use `backend` ort")));
        }
        let is_declared =
            |spec: &TensorSpec| graph.is_some_and(|graph| graph.input.iter().any(|input| input.name == spec.name));
        let state = runnable(model, Form::Optimised).and_then(|model| model.spawn()).map_err(refused)?;
        let of = |spec: &TensorSpec| is_declared(spec).then(|| bound_shape(spec, 1));
        Ok(Self { state, inputs: inputs.iter().map(of).collect() })
    }

    fn compute(&mut self, inputs: &[TensorRef<'_>]) -> TractResult<Vec<Option<WrittenOutput>>> {
        let mut given: TVec<TValue> = tvec![];
        for (shape, values) in self.inputs.iter().zip(inputs) {
            let Some(shape) = shape else { continue };
            let tensor = match values {
                TensorRef::F32(values) => Tensor::from_shape(shape, values)?,
                TensorRef::I64(values) => Tensor::from_shape(shape, values)?,
            };
            given.push(tensor.into_tvalue());
        }
        let outputs = self.state.run(given)?;
        let output = |value: &TValue| {
            let plain = value.try_as_plain_ram().ok()?;
            let values = plain.as_slice::<f32>().ok()?.to_vec();
            Some(WrittenOutput { shape: value.shape().to_vec(), values })
        };
        Ok(outputs.iter().map(output).collect())
    }
}

impl WrittenSession for TractWritten {
    fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Option<WrittenOutput>>, BackendError> {
        self.compute(inputs).map_err(|error| BackendError(format!("tract failed: {}", one_line(&error))))
    }
}

fn refused(error: TractError) -> BackendError {
    BackendError(format!("tract cannot run the model: {}", one_line(&error)))
}

/// First operator that tract lacks. It finds operators by their names alone, so those of other domains than ONNX's
/// would run as ONNX's operators of the same name.
fn absent(graph: &GraphProto) -> Option<String> {
    let known = tract_onnx::onnx().op_register.0;
    graph.node.iter().find_map(|node| {
        let is_standard = matches!(node.domain.as_str(), "" | "ai.onnx" | "ai.onnx.ml");
        let name = if is_standard { node.op_type.clone() } else { format!("{}.{}", node.domain, node.op_type) };
        let inner = || node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()).find_map(absent);
        if is_standard && known.contains_key(&node.op_type) { inner() } else { Some(name) }
    })
}
