//! Names, element types and shapes of the inputs and outputs of a model, and values for them.

use crate::DType;

/// Extent of an axis in an emitted tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// Number of samples in the physical batch.
    Batch,
    /// Fixed extent.
    Fixed(usize),
}

impl Dim {
    /// Extent for a batch of `rows` samples.
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
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<Dim>,
}

impl TensorSpec {
    /// Number of elements for `rows` samples.
    pub fn elements(&self, rows: usize) -> usize {
        self.shape.iter().map(|dim| dim.extent(rows)).product()
    }
}

/// Values of one tensor in row-major order, with the shape of its [`TensorSpec`] for a number of samples.
#[derive(Clone, Copy, Debug)]
pub enum TensorRef<'a> {
    /// Floats.
    F32(&'a [f32]),
    /// Integers.
    I64(&'a [i64]),
}
