//! Session of a model as its file has it: without custom operators, bound shapes or rewrites.

use super::super::backend::{BackendError, WrittenOutput, WrittenSession, bound_shape};
use super::errors::one_line;
use damper_onnx::{TensorRef, TensorSpec};
use ort::session::SessionInputValue;
use ort::value;

pub(super) struct OrtWritten {
    session: ort::session::Session,
    outputs: Vec<String>,
    /// Names and shapes of the inputs. `None` for one that the model does not read.
    inputs: Vec<Option<(String, Vec<usize>)>>,
}

impl OrtWritten {
    /// Wraps a session that takes those of `inputs` that it declares.
    pub(super) fn new(session: ort::session::Session, inputs: &[TensorSpec]) -> Self {
        let is_declared = |spec: &TensorSpec| session.inputs().iter().any(|input| input.name() == spec.name);
        let of = |spec: &TensorSpec| is_declared(spec).then(|| (spec.name.clone(), bound_shape(spec, 1)));
        Self {
            inputs: inputs.iter().map(of).collect(),
            outputs: session.outputs().iter().map(|output| output.name().to_owned()).collect(),
            session,
        }
    }

    fn compute(&mut self, inputs: &[TensorRef<'_>]) -> ort::Result<Vec<Option<WrittenOutput>>> {
        let mut given: Vec<(&str, SessionInputValue<'_>)> = vec![];
        for (input, values) in self.inputs.iter().zip(inputs) {
            let Some((name, shape)) = input else { continue };
            let value: SessionInputValue<'_> = match *values {
                TensorRef::F32(values) => value::TensorRef::from_array_view((shape.clone(), values))?.into(),
                TensorRef::I64(values) => value::TensorRef::from_array_view((shape.clone(), values))?.into(),
            };
            given.push((name, value));
        }
        let outputs = self.session.run(given)?;
        let output = |name: &String| {
            let (shape, values) = outputs.get(name)?.try_extract_tensor::<f32>().ok()?;
            let shape = shape.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<_>>()?;
            Some(WrittenOutput { shape, values: values.to_vec() })
        };
        Ok(self.outputs.iter().map(output).collect())
    }
}

impl WrittenSession for OrtWritten {
    fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Option<WrittenOutput>>, BackendError> {
        self.compute(inputs).map_err(|error| BackendError(format!("onnxruntime failed: {}", one_line(&error))))
    }
}
