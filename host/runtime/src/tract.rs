//! tract: an ONNX runtime in pure Rust, compiled in.
//!
//! Each session uses one thread, whatever the plan specifies, because tract's pool is not compiled in. So its bits
//! depend only on the model, the batch shape and the processor's instruction set.
//!
//! tract's optimizer has many rewrite rules. One of them silently gave wrong gradients. It drops a broadcast before a
//! matrix product that sums over it. damper writes no such graph, and [`Tract::self_test`] would detect another fault.

mod load;
mod written;

use super::backend::{Backend, BackendError, Session, SessionSpec, WrittenSession, bound_shape, check_inputs};
use super::bind::bind;
use damper_onnx::graph::DType;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TensorRef, TensorSpec, lower_custom};
use load::{Form, one_line, runnable};
use std::sync::Arc;
use tract_onnx::prelude::*;
use written::TractWritten;

/// Version compiled in. tract does not expose it. A test compares it with the lock file.
const VERSION: &str = "0.23.9";

/// Backend that runs graphs on tract.
#[derive(Debug)]
pub struct Tract {
    note: String,
}

impl Tract {
    /// tract, on request.
    pub fn new() -> Self {
        Self { note: "tract, compiled in".into() }
    }

    /// tract, because onnxruntime is unavailable.
    pub(super) fn fallback() -> Self {
        Self { note: "tract, compiled in (onnxruntime, which is faster, was not found: `backend` ort says why)".into() }
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

    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        Ok(Box::new(TractSession::new(model, plan, Form::Optimised)?))
    }

    fn load_written(
        &self,
        model: &ModelProto,
        inputs: &[TensorSpec],
        _threads: usize,
    ) -> Result<Box<dyn WrittenSession>, BackendError> {
        Ok(Box::new(TractWritten::new(model, inputs)?))
    }

    /// Compares the optimised graph with the graph as written.
    fn self_test(&self, model: &ModelProto, plan: &SessionSpec, inputs: &[TensorRef<'_>]) -> Result<(), BackendError> {
        let outputs = |form| TractSession::new(model, plan, form)?.outputs(inputs);
        let optimised = outputs(Form::Optimised)?;
        // Without the unoptimised run nothing can be compared.
        let Ok(written) = outputs(Form::AsWritten) else { return Ok(()) };
        let names: Vec<&str> = plan.outputs.iter().map(|spec| spec.name.as_str()).collect();
        match differing(&names, &optimised, &written) {
            None => Ok(()),
            Some((output, share)) => {
                let name = names[output];
                let parameter = READ.iter().find_map(|prefix| name.strip_prefix(prefix));
                let what = parameter.map_or(format!("'{name}'"), |name| format!("gradient of '{name}'"));
                Err(BackendError(format!(
                    "tract {VERSION} computes another {what} when it optimises the model (off by {:.1} % on made-up \
                     numbers), so it must not train it: use onnxruntime, with `backend` ort",
                    100.0 * share
                )))
            }
        }
    }
}

/// Prefixes of the outputs that belong to a parameter.
const READ: [&str; 4] = ["dp.grad.", "dp.left.", "dp.right.", "dp.sum."];

/// Output with the largest relative difference between two computations, and that difference. `None` if rounding
/// explains every difference.
fn differing(names: &[&str], a: &[Vec<f32>], b: &[Vec<f32>]) -> Option<(usize, f64)> {
    let norms: Vec<f64> = b.iter().map(|b| norm(b.iter().map(|&x| f64::from(x)))).collect();
    let kind = |index: usize| READ.iter().position(|prefix| names[index].starts_with(prefix));
    let share = |index: usize| {
        let alike = (0..norms.len()).filter(|&other| kind(other) == kind(index) && norms[other].is_finite());
        let whole = alike.map(|other| norms[other]).fold(0.0, f64::max);
        let difference = norm(a[index].iter().zip(&b[index]).map(|(&a, &b)| f64::from(a) - f64::from(b)));
        let is_near = difference <= OFF * norms[index] + NOISE * whole;
        // An overflow in the graph as written shows nothing. An overflow only after optimisation is a fault.
        let is_off = norms[index].is_finite() && !is_near;
        is_off.then(|| (index, difference / (norms[index] + NOISE * whole)))
    };
    (0..a.len()).filter_map(share).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|x| x * x).sum::<f64>().sqrt()
}

/// Tolerance relative to the output's norm: for rounding, and for crossing a kink.
const OFF: f64 = 1e-2;
/// Tolerance relative to the largest norm of an output of the same kind. The gradient of a bias before a normalisation
/// is zero up to rounding.
const NOISE: f64 = 1e-5;

struct TractSession {
    state: TypedSimpleState,
    plan: SessionSpec,
    /// tract owns its inputs. Each input is copied into the tensor of the previous run, which has no other user by
    /// then.
    inputs: Vec<Arc<Tensor>>,
}

impl TractSession {
    fn new(model: &ModelProto, plan: &SessionSpec, form: Form) -> Result<Self, BackendError> {
        let mut model = bind(model, plan)?;
        lower_custom(&mut model, |_| false);
        let refused = |error: TractError| BackendError(format!("tract cannot run the model: {}", one_line(&error)));
        let runnable = runnable(&model, form).map_err(refused)?;
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
                    "output '{}' is {fact:?} where the plan says {:?} of shape {shape:?}",
                    spec.name, spec.dtype
                )));
            }
        }
        Ok(Self { state: runnable.spawn().map_err(refused)?, plan: plan.clone(), inputs })
    }

    fn outputs(mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Vec<f32>>, BackendError> {
        let mut all = Vec::new();
        self.run(inputs, &mut |outputs| all = outputs.iter().map(|output| output.to_vec()).collect())?;
        Ok(all)
    }
}

impl Session for TractSession {
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        check_inputs(&self.plan, inputs)?;
        let failed = |error: TractError| BackendError(format!("tract failed: {}", one_line(&error)));
        for (tensor, input) in self.inputs.iter_mut().zip(inputs) {
            if Arc::get_mut(tensor).is_none() {
                *tensor = Arc::new(tensor.as_ref().clone());
            }
            let tensor = Arc::get_mut(tensor).expect("a fresh tensor has one holder");
            let mut plain = tensor.try_as_plain_ram_mut().map_err(failed)?;
            match input {
                TensorRef::F32(values) => plain.as_slice_mut::<f32>().map_err(failed)?.copy_from_slice(values),
                TensorRef::I64(values) => plain.as_slice_mut::<i64>().map_err(failed)?.copy_from_slice(values),
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

#[cfg(test)]
mod tests {
    use super::*;

    // Accepts a difference by rounding, and detects any other difference.
    #[test]
    fn tolerates_rounding_and_nothing_else() {
        let written = [vec![3.0, 4.0], vec![1e-6], vec![f32::INFINITY]];
        let off = |a: [f32; 4]| {
            differing(&["dp.grad.a", "dp.grad.b", "dp.grad.c"], &[vec![a[0], a[1]], vec![a[2]], vec![a[3]]], &written)
                .map(|(index, _)| index)
        };
        assert_eq!(off([3.0, 4.0, 1e-6, f32::INFINITY]), None);
        assert_eq!(off([3.0, 4.000_01, -1e-6, 7.0]), None);
        assert_eq!(off([3.0, 4.1, 1e-6, 7.0]), Some(0));
        assert_eq!(off([3.0, f32::NAN, 1e-6, 7.0]), Some(0));
        assert_eq!(off([3.0, 4.0, 1e-3, 7.0]), Some(1));
    }

    #[test]
    fn the_version_reported_is_the_locked_one() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"tract-onnx\"\nversion = \"{VERSION}\"\n")));
    }
}
