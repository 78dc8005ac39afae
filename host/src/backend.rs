//! Who runs a graph. A backend loads a model for one fixed batch; a session runs it.

use crate::autodiff::TensorSpec;

/// One tensor handed to a session, row-major, its shape that of its [`TensorSpec`] with the batch bound.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    F32(&'a [f32]),
    I64(&'a [i64]),
}

/// What a session is loaded for.
#[derive(Clone, Debug)]
pub struct Plan {
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
    /// `tract`, `ort` or `cuda`, as reports name it.
    fn name(&self) -> &'static str;
    /// Version of the runtime that was really loaded.
    fn version(&self) -> String;
    /// Makes `model` ready for batches of `plan.batch` rows.
    fn load(&self, model: &[u8], plan: &Plan) -> Result<Box<dyn Session>, BackendError>;
}

/// A loaded model.
pub trait Session: Send {
    /// Runs once. `inputs` in `plan.inputs` order; `read` sees the outputs in `plan.outputs` order, without a copy.
    fn run(&mut self, inputs: &[Input<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError>;
}

/// A backend is absent, or refused a model.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);
