//! Names, element types and shapes of the inputs and outputs of a model, and values for them.

use crate::DType;

/// One extent of an emitted tensor's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// The number of samples in the physical batch.
    Batch,
    /// A known extent.
    Fixed(usize),
}

impl Dim {
    /// The extent where the batch has `rows` samples.
    pub fn extent(self, rows: usize) -> usize {
        match self {
            Self::Batch => rows,
            Self::Fixed(extent) => extent,
        }
    }
}

/// Name, element type and shape of an input or output of an emitted graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    /// The tensor's name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<Dim>,
}

impl TensorSpec {
    /// Number of elements for `rows` samples.
    pub fn elements(&self, rows: usize) -> usize {
        self.shape.iter().map(|dim| dim.extent(rows)).product()
    }
}

/// The values of one tensor, row-major, in the shape of its [`TensorSpec`] for a number of samples.
#[derive(Clone, Copy, Debug)]
pub enum TensorRef<'a> {
    /// Floats.
    F32(&'a [f32]),
    /// Integers.
    I64(&'a [i64]),
}
