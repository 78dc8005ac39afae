//! Tensors of a program: their types, and slices of them.

use damper_onnx::{Tensor, TensorData};

/// Element type in memory. 32-bit integers are stored as 64-bit integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// f32.
    F32,
    /// i64.
    I64,
    /// Booleans.
    Bool,
}

/// Stage in which a value is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// When the program is built.
    Constant,
    /// At the start of a step: depends on the parameters, and is the same for all samples.
    Parameters,
    /// With each sample.
    Sample,
}

/// Elements known when the program is built.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I64(Vec<i64>),
    /// Booleans.
    Bool(Vec<bool>),
}

impl Data {
    /// Elements of `tensor`. `None` for a type without kernels.
    pub(super) fn of(tensor: Tensor) -> Option<Self> {
        match tensor.data {
            TensorData::F32(data) => Some(Self::F32(data.to_vec())),
            TensorData::I64(data) => Some(Self::I64(data)),
            TensorData::I32(data) => Some(Self::I64(data.into_iter().map(i64::from).collect())),
            TensorData::Bool(data) => Some(Self::Bool(data)),
            TensorData::F64(_) => None,
        }
    }

    pub(super) fn zeros(kind: Kind, len: usize) -> Self {
        match kind {
            Kind::F32 => Self::F32(vec![0.0; len]),
            Kind::I64 => Self::I64(vec![0; len]),
            Kind::Bool => Self::Bool(vec![false; len]),
        }
    }

    /// Element type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::F32(_) => Kind::F32,
            Self::I64(_) => Kind::I64,
            Self::Bool(_) => Kind::Bool,
        }
    }

    pub(super) fn slice(&self) -> Slice<'_> {
        match self {
            Self::F32(data) => Slice::F32(data),
            Self::I64(data) => Slice::I64(data),
            Self::Bool(data) => Slice::Bool(data),
        }
    }

    pub(super) fn slice_mut(&mut self) -> SliceMut<'_> {
        match self {
            Self::F32(data) => SliceMut::F32(data),
            Self::I64(data) => SliceMut::I64(data),
            Self::Bool(data) => SliceMut::Bool(data),
        }
    }
}

/// Operand of a kernel.
#[derive(Clone, Copy)]
pub(super) enum Slice<'a> {
    F32(&'a [f32]),
    I64(&'a [i64]),
    Bool(&'a [bool]),
}

/// Result of a kernel.
pub(super) enum SliceMut<'a> {
    F32(&'a mut [f32]),
    I64(&'a mut [i64]),
    Bool(&'a mut [bool]),
}
