//! A tensor of the emitted graph, and where its samples lie.

use damper_onnx::graph::{BatchAxis, DType};
use std::collections::HashMap;
use std::rc::Rc;

/// The plain batch axis 0.
pub const BATCH_FIRST: BatchAxis = BatchAxis { axis: 0, outer: 1, inner: 1 };

/// A tensor of the emitted graph; `shape` is that of a batch of one sample, as in [`damper_onnx::graph::Value`].
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

    /// Returns true if the batch is axis 0 and that axis is the batch alone.
    pub fn is_batch_first(&self) -> bool {
        self.batch == Some(BATCH_FIRST)
    }
}

/// Tensors by name; a tensor with a batch counts for one sample.
pub type Known = HashMap<Rc<str>, Var>;

/// The second input of a `Reshape`: -1 where the batch is.
pub fn reshape_target(shape: &[usize], batch: Option<BatchAxis>) -> Vec<i64> {
    let mut target: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    if let Some(batch) = batch {
        target[batch.axis] = -1;
    }
    target
}
