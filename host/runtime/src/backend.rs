//! Backend and session traits, and the checks that all backends share. A backend loads a model for a plan. A session
//! runs it.

use super::inputs::Inputs;
use super::operators::Operators;
use damper_onnx::pb::ModelProto;
use damper_onnx::{DType, Dim, TensorRef, TensorSpec};

/// Environment variable that NVIDIA's libraries read when they load. With 0 they never round float products to TF32
/// (11-bit significand). onnxruntime's own setting does not reach all of its convolutions.
pub const TF32_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// Shapes and settings of a session.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// Rows of the run's single physical batch shape.
    pub batch: usize,
    /// Threads within one operator. The trainer runs several one-thread sessions in parallel.
    pub threads: usize,
    /// Inputs, in the order in which `run` takes them.
    pub inputs: Vec<TensorSpec>,
    /// Outputs, in the order in which `run` returns them. All are floats.
    pub outputs: Vec<TensorSpec>,
}

/// Runtime for ONNX models.
pub trait Backend {
    /// Name used in reports: `tract`, `portable`, `ort` or `cuda`.
    fn name(&self) -> &'static str;
    /// Version of the runtime that was loaded.
    fn version(&self) -> String;
    /// One line for the log: the origin of the runtime, or why it was chosen.
    fn note(&self) -> String;
    /// Address in the runtime's code if that is outside the program. The code stays loaded, and
    /// [`loaded::code`](crate::loaded::code) reads it.
    fn code(&self) -> Option<usize> {
        None
    }
    /// Returns true if results have the same bits on every target. Callers then use `damper-nn` for gradients of the
    /// outputs too.
    fn is_portable(&self) -> bool {
        false
    }
    /// Nodes that run on the processor in the sessions loaded so far. `None` if the backend has no device.
    fn host_nodes(&self) -> Option<Vec<HostNode>> {
        None
    }
    /// Operators that the backend's graphs may use.
    fn operators(&self) -> Operators {
        Operators::Standard
    }
    /// Loads `model` for batches of `plan.batch` rows.
    ///
    /// # Errors
    ///
    /// Fails if an input or output of `plan` is missing or has another type, or if the runtime rejects the model. The
    /// message names the runtime and its reason, and the node if the runtime names it.
    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError>;

    /// Loads `model`, of one sample, as it is written. It may have any operator of the runtime. The session takes the
    /// values of `inputs`, of which the model may declare fewer.
    ///
    /// # Errors
    ///
    /// Fails if the runtime lacks an operator, or rejects the model.
    fn load_written(
        &self,
        _model: &ModelProto,
        _inputs: &[TensorSpec],
        _threads: usize,
    ) -> Result<Box<dyn WrittenSession>, BackendError> {
        let name = self.name();
        Err(BackendError(format!("backend {name} has only operators with a rule; use `backend` ort")))
    }

    /// Loads a session that accumulates the outputs from `first` on over the runs of a step, in device memory. Returns
    /// `None` if the backend has no such memory.
    ///
    /// # Errors
    ///
    /// See [`Backend::load`].
    fn load_summing(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
        _first: usize,
    ) -> Result<Option<Box<dyn SummingSession>>, BackendError> {
        Ok(None)
    }

    /// Loads a session whose outputs stay in device memory. Returns `None` if the backend has no device.
    ///
    /// # Errors
    ///
    /// See [`Backend::load`].
    fn load_resident(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
    ) -> Result<Option<Box<dyn ResidentSession>>, BackendError> {
        Ok(None)
    }

    /// Self-test: runs `model` on synthetic values in two ways, if the runtime has two, and compares the results.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot run the model, or if an output differs. The message names the output.
    fn self_test(
        &self,
        _model: &ModelProto,
        _plan: &SessionSpec,
        _inputs: &[TensorRef<'_>],
    ) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Node that runs on the processor although its session has a device. Its inputs and outputs are copied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostNode {
    /// Operator type.
    pub op: String,
    /// Node name in the gradient graph.
    pub name: String,
}

impl std::fmt::Display for HostNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.op, self.name)
    }
}

/// Loaded model.
pub trait Session: Send {
    /// Runs the model once. `inputs` are in `plan.inputs` order. `read` gets the outputs in `plan.outputs` order,
    /// without a copy.
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError>;

    /// Runs like [`Session::run`]. A session with a device uploads the kept inputs once instead of in every run.
    fn run_kept(&mut self, inputs: Inputs<'_>, read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        self.run(&inputs.all(), read)
    }
}

/// Model of one sample, loaded as it is written.
pub trait WrittenSession: Send {
    /// Runs the model on one sample. `inputs` are in the order of the specifications given to
    /// [`Backend::load_written`]. Returns the outputs in the model's order. `None` is an
    /// output that is not a float32 tensor.
    ///
    /// # Errors
    ///
    /// The runtime fails on this sample.
    fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Option<WrittenOutput>>, BackendError>;
}

/// Output of a model that runs as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct WrittenOutput {
    /// Shape for this sample.
    pub shape: Vec<usize>,
    /// Values in row-major order.
    pub values: Vec<f32>,
}

/// Loaded model whose last outputs are summed over the chunks of a step.
pub trait SummingSession: Send {
    /// Runs on one chunk. `read` gets the outputs that are not summed, and after the last chunk also the sums, in
    /// `plan.outputs` order. Chunks are summed in their order, and the first chunk resets the sums.
    ///
    /// # Errors
    ///
    /// Fails if the inputs do not fit or the runtime fails. The next chunk must then be a first chunk.
    fn add(
        &mut self,
        inputs: Inputs<'_>,
        place: ChunkPlace,
        read: &mut dyn FnMut(&[&[f32]]),
    ) -> Result<(), BackendError>;
}

/// Loaded model whose outputs stay in device memory.
pub trait ResidentSession: Send {
    /// Runs on one chunk and waits until it is done.
    ///
    /// # Errors
    ///
    /// Fails if the inputs do not fit or the runtime fails.
    fn run(&mut self, inputs: Inputs<'_>) -> Result<(), BackendError>;

    /// Outputs of the last run, in `plan.outputs` order, each `[batch, …]`. Their addresses stay the same for the
    /// lifetime of the session.
    fn outputs(&self) -> &[DeviceFloats];
}

/// Floats in device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFloats {
    /// Device address of the first float.
    pub address: usize,
    /// Number of floats.
    pub len: usize,
}

/// Position of a chunk within its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkPlace {
    /// True for the first chunk.
    pub is_first: bool,
    /// True for the last chunk.
    pub is_last: bool,
}

/// Error of an absent backend, or of a model that a backend rejects.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);

/// Shape of `spec` with the batch axis set to `batch`.
pub(super) fn bound_shape(spec: &TensorSpec, batch: usize) -> Vec<usize> {
    spec.shape
        .iter()
        .map(|dim| match dim {
            Dim::Batch => batch,
            Dim::Fixed(extent) => *extent,
        })
        .collect()
}

/// Checks the inputs of `run` against the plan before a runtime gets them.
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

/// Checks that backends support the plan: float outputs, f32 and i64 inputs, at least one row and one thread.
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
