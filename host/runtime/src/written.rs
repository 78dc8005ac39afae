//! Models that run as their file has them, for operators without a rule.

use super::backend::BackendError;
use damper_onnx::TensorRef;

/// Model of one sample, loaded as it is written.
pub trait WrittenSession: Send {
    /// Runs the model on one sample. `inputs` are in the order of the specifications given to
    /// [`Backend::load_written`](crate::Backend::load_written). Returns the outputs in the model's order. `None` is an
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
