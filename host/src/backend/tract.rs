//! tract: an ONNX runtime in pure Rust, compiled in.
//!
//! One thread a session whatever the plan says (its pool is not compiled in), so its bits are a function of the model,
//! the batch shape and the processor's instruction set.

use super::bind::bind;
use super::{Backend, BackendError, Input, Plan, Session, bound_shape, check_inputs};
use crate::graph::DType;
use std::sync::Arc;
use tract_onnx::prelude::*;

/// The version compiled in (tract does not hand it out; a test compares it with the lock file).
const VERSION: &str = "0.23.9";

/// The tract runtime.
#[derive(Debug)]
pub struct Tract {
    note: String,
}

impl Tract {
    /// tract, asked for.
    pub fn new() -> Self {
        Self { note: "tract, compiled in".into() }
    }

    /// tract, because onnxruntime cannot be had.
    pub(super) fn fallback() -> Self {
        Self { note: "tract, compiled in (onnxruntime, which is faster, was not found: --backend ort says why)".into() }
    }
}

impl Default for Tract {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Tract {
    fn name(&self) -> &'static str {
        "tract"
    }

    fn version(&self) -> String {
        VERSION.into()
    }

    fn note(&self) -> String {
        self.note.clone()
    }

    fn load(&self, model: &[u8], plan: &Plan) -> Result<Box<dyn Session>, BackendError> {
        let model = bind(model, plan)?;
        let refused = |error: TractError| BackendError(format!("tract cannot run the model: {}", one_line(&error)));
        let runnable = tract_onnx::onnx()
            .with_ignore_output_shapes(true)
            .parse(&model, None)
            .and_then(|parsed| parsed.model.into_optimized())
            .and_then(|model| model.into_runnable())
            .map_err(refused)?;
        let inputs = plan
            .inputs
            .iter()
            .map(|spec| {
                let shape = bound_shape(spec, plan.batch);
                match spec.dtype {
                    DType::I64 => Tensor::zero::<i64>(&shape),
                    _ => Tensor::zero::<f32>(&shape),
                }
                .map(Arc::new)
            })
            .collect::<TractResult<Vec<_>>>()
            .map_err(refused)?;
        for (index, spec) in plan.outputs.iter().enumerate() {
            let fact = runnable.model().output_fact(index).map_err(refused)?;
            let shape = bound_shape(spec, plan.batch);
            if fact.datum_type != f32::datum_type() || fact.shape.as_concrete() != Some(&shape[..]) {
                return Err(BackendError(format!(
                    "output `{}` is {fact:?} where the plan says {:?} of shape {shape:?}",
                    spec.name, spec.dtype
                )));
            }
        }
        Ok(Box::new(TractSession { state: runnable.spawn().map_err(refused)?, plan: plan.clone(), inputs }))
    }
}

struct TractSession {
    state: TypedSimpleState,
    plan: Plan,
    /// tract owns what it reads: each input is copied into the tensor of the run before, which nobody holds any more.
    inputs: Vec<Arc<Tensor>>,
}

impl Session for TractSession {
    fn run(&mut self, inputs: &[Input<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        check_inputs(&self.plan, inputs)?;
        let failed = |error: TractError| BackendError(format!("tract failed: {}", one_line(&error)));
        for (tensor, input) in self.inputs.iter_mut().zip(inputs) {
            if Arc::get_mut(tensor).is_none() {
                *tensor = Arc::new(tensor.as_ref().clone());
            }
            let tensor = Arc::get_mut(tensor).expect("a fresh tensor has one holder");
            let mut plain = tensor.try_as_plain_ram_mut().map_err(failed)?;
            match input {
                Input::F32(values) => plain.as_slice_mut::<f32>().map_err(failed)?.copy_from_slice(values),
                Input::I64(values) => plain.as_slice_mut::<i64>().map_err(failed)?.copy_from_slice(values),
            }
        }
        let values = self.inputs.iter().map(|tensor| tensor.clone().into_tvalue()).collect();
        let outputs = self.state.run(values).map_err(failed)?;
        let plain =
            outputs.iter().map(|value| value.try_as_plain_ram()).collect::<TractResult<Vec<_>>>().map_err(failed)?;
        let slices =
            plain.iter().map(|view| view.as_slice::<f32>()).collect::<TractResult<Vec<_>>>().map_err(failed)?;
        read(&slices);
        Ok(())
    }
}

/// The chain of causes on one line, the outermost (which names the node) first.
fn one_line(error: &TractError) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string().replace('\n', " "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_reported_is_the_locked_one() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"tract-onnx\"\nversion = \"{VERSION}\"\n")));
    }
}
