//! Tensor of the emitted graph, with its batch axis.

use damper_onnx::graph::{BatchAxis, DType};
use std::collections::HashMap;
use std::rc::Rc;

/// Plain batch axis 0.
pub const BATCH_FIRST: BatchAxis = BatchAxis { axis: 0, outer: 1, inner: 1 };

/// Tensor of the emitted graph. `shape` is that of a batch of one sample, as in [`damper_onnx::graph::Value`].
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    pub name: Rc<str>,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub batch: Option<BatchAxis>,
}

impl Var {
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Elements of one sample.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if the batch is on axis 0, without other factors.
    pub fn is_batch_first(&self) -> bool {
        self.batch == Some(BATCH_FIRST)
    }
}

/// Tensors by name, with one-sample shapes.
pub type Known = HashMap<Rc<str>, Var>;

/// Second input of a `Reshape`, with -1 for the batch.
pub fn reshape_target(shape: &[usize], batch: Option<BatchAxis>) -> Vec<i64> {
    let mut target: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    if let Some(batch) = batch {
        target[batch.axis] = -1;
    }
    target
}
