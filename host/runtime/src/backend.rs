//! The traits of backends and sessions, and the checks that all backends share. A backend loads a model for a plan; a session runs it.

use super::inputs::Inputs;
use super::operators::Operators;
use damper_onnx::pb::ModelProto;
use damper_onnx::{DType, Dim, TensorRef, TensorSpec};

/// A variable that NVIDIA's libraries read when they are loaded. With 0 they round no product of floats to TF32's 11 bits. onnxruntime's own
/// setting does not reach all of its convolutions.
pub const TF32_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// The shapes and settings that a session is loaded for.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// Rows of the one physical batch shape of the run.
    pub batch: usize,
    /// Threads inside one operator (the trainer runs one-thread sessions side by side).
    pub threads: usize,
    /// In the order in which `run` receives them.
    pub inputs: Vec<TensorSpec>,
    /// In the order in which `run` hands them out; float outputs only.
    pub outputs: Vec<TensorSpec>,
}

/// A way to run ONNX models.
pub trait Backend {
    /// `tract`, `portable`, `ort` or `cuda`, as reports name it.
    fn name(&self) -> &'static str;
    /// Version of the runtime that was really loaded.
    fn version(&self) -> String;
    /// The origin of the runtime, or why it was chosen: one line for a log.
    fn note(&self) -> String;
    /// An address in the runtime's code, which stays loaded, if it is not part of the program: [`loaded::code`](crate::loaded::code) reads it.
    fn code(&self) -> Option<usize> {
        None
    }
    /// Returns true if its numbers have the same bits on every target. Who computes gradients of its outputs then does so by `damper-nn` too.
    fn is_portable(&self) -> bool {
        false
    }
    /// The nodes that the sessions loaded so far run on the processor. None if the backend has no device.
    fn host_nodes(&self) -> Option<Vec<HostNode>> {
        None
    }
    /// The operators of its graphs.
    fn operators(&self) -> Operators {
        Operators::Standard
    }
    /// Makes `model` ready for batches of `plan.batch` rows.
    ///
    /// # Errors
    ///
    /// An input or output of `plan` is missing or of another type, or the runtime
    /// refuses the model: the message names the runtime and gives its reason, with the node where it names one.
    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError>;

    /// As [`Backend::load`], for a session that adds up the outputs from `first` on over the runs of a step, where its device keeps them;
    /// none if the backend keeps nothing there.
    ///
    /// # Errors
    ///
    /// As [`Backend::load`].
    fn load_summing(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
        _first: usize,
    ) -> Result<Option<Box<dyn SummingSession>>, BackendError> {
        Ok(None)
    }

    /// As [`Backend::load`], for a session whose outputs stay in the memory of its device. None if the backend has no device.
    ///
    /// # Errors
    ///
    /// As [`Backend::load`].
    fn load_resident(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
    ) -> Result<Option<Box<dyn ResidentSession>>, BackendError> {
        Ok(None)
    }

    /// Computes `model` on numbers that are nobody's in two ways, where the runtime has two, and compares.
    ///
    /// # Errors
    ///
    /// The runtime cannot run the model, or computes an output wrong: the message names it.
    fn self_test(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
        _inputs: &[TensorRef<'_>],
    ) -> Result<(), BackendError> {
        Ok(())
    }
}

/// A node that runs on the processor although its session has a device: its inputs and outputs are copied for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostNode {
    /// Its operator.
    pub op: String,
    /// Its name in the gradient graph.
    pub name: String,
}

impl std::fmt::Display for HostNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.op, self.name)
    }
}

/// A loaded model.
pub trait Session: Send {
    /// Runs once. `inputs` in `plan.inputs` order; `read` sees the outputs in `plan.outputs` order, without a copy.
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError>;

    /// As [`Session::run`]. A session with a device uploads the kept inputs once, not for each run.
    fn run_kept(&mut self, inputs: Inputs<'_>, read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        self.run(&inputs.all(), read)
    }
}

/// A loaded model whose last outputs are added up over the chunks of a step.
pub trait SummingSession: Send {
    /// Runs on one chunk. `read` sees the outputs that are not added up, and after the last chunk the sums too, in `plan.outputs` order. The
    /// sums have the order of the chunks, and begin with the first.
    ///
    /// # Errors
    ///
    /// The inputs do not fit, or the runtime failed. The next chunk must be a first one.
    fn add(
        &mut self,
        inputs: Inputs<'_>,
        place: ChunkPlace,
        read: &mut dyn FnMut(&[&[f32]]),
    ) -> Result<(), BackendError>;
}

/// A loaded model whose outputs stay in the memory of its device.
pub trait ResidentSession: Send {
    /// Runs on one chunk, and waits for its end.
    ///
    /// # Errors
    ///
    /// The inputs do not fit, or the runtime failed.
    fn run(&mut self, inputs: Inputs<'_>) -> Result<(), BackendError>;

    /// The outputs, in `plan.outputs` order: each `[batch, …]`. They have the values of the last run, and lie in the same places in every run,
    /// as long as the session lives.
    fn outputs(&self) -> &[DeviceFloats];
}

/// Floats in the memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFloats {
    /// The address of the first, as the device has it.
    pub address: usize,
    /// Their number.
    pub len: usize,
}

/// The place of a chunk in its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkPlace {
    /// True of the first chunk.
    pub is_first: bool,
    /// True of the last chunk.
    pub is_last: bool,
}

/// A backend is absent, or refused a model.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);

/// Shape of `spec` with the batch bound to `batch`.
pub(super) fn bound_shape(spec: &TensorSpec, batch: usize) -> Vec<usize> {
    spec.shape
        .iter()
        .map(|dim| match dim {
            Dim::Batch => batch,
            Dim::Fixed(extent) => *extent,
        })
        .collect()
}

/// Checks what is handed to `run` against the plan, before a runtime sees it.
pub(super) fn check_inputs(plan: &SessionSpec, inputs: &[TensorRef<'_>]) -> Result<(), BackendError> {
    if inputs.len() != plan.inputs.len() {
        return Err(BackendError(format!(
            "{} inputs were given where the plan has {}: give one for each, in the plan's order",
            inputs.len(),
            plan.inputs.len()
        )));
    }
    for (spec, input) in plan.inputs.iter().zip(inputs) {
        let (dtype, len) = match input {
            TensorRef::F32(values) => (DType::F32, values.len()),
            TensorRef::I64(values) => (DType::I64, values.len()),
        };
        if dtype != spec.dtype {
            return Err(BackendError(format!(
                "input '{}' is {:?} where the plan says {:?}: convert it",
                spec.name, dtype, spec.dtype
            )));
        }
        let needed = spec.elements(plan.batch);
        if len != needed {
            let shape = bound_shape(spec, plan.batch);
            return Err(BackendError(format!(
                "input '{}' has {len} elements where its shape {shape:?} needs {needed}: pad the batch to {} rows",
                spec.name, plan.batch
            )));
        }
    }
    Ok(())
}

/// Checks that a plan can be served: float outputs, f32 and i64 inputs, at least one row and one thread.
pub(super) fn check_plan(plan: &SessionSpec) -> Result<(), BackendError> {
    if plan.batch == 0 || plan.threads == 0 {
        return Err(BackendError("a session needs at least one row and one thread".into()));
    }
    for spec in &plan.inputs {
        if !matches!(spec.dtype, DType::F32 | DType::I64) {
            return Err(BackendError(format!(
                "input '{}' is {:?}: only F32 and I64 can be handed to a session; put a Cast into the model",
                spec.name, spec.dtype
            )));
        }
    }
    for spec in &plan.outputs {
        if spec.dtype != DType::F32 {
            return Err(BackendError(format!(
                "output '{}' is {:?}: only F32 can be read from a session; put a Cast into the model",
                spec.name, spec.dtype
            )));
        }
    }
    Ok(())
}
