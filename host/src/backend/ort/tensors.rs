//! Tensors as the operators of our own take and declare them.

use super::operators::DOMAIN;
use ort::operator::ShapeInferenceContext;
use ort::value::{Shape, SymbolicDimensions, TensorElementType, ValueRef, ValueRefMut, ValueType};

/// Shape and entries of an input.
pub(super) fn floats<'a>(input: &'a ValueRef<'_>) -> ort::Result<(&'a [i64], &'a [f32])> {
    let (shape, entries) = input.try_extract_tensor::<f32>()?;
    Ok((shape, entries))
}

/// Entries of an output.
pub(super) fn floats_mut<'a>(output: &'a mut ValueRefMut<'_>) -> ort::Result<&'a mut [f32]> {
    Ok(output.try_extract_tensor_mut::<f32>()?.1)
}

/// A shape that is known whole: onnxruntime takes an unknown extent for a number.
pub(super) struct Shapes {
    pub(super) shape: Vec<i64>,
}

impl Shapes {
    /// That of an input.
    pub(super) fn known(context: &ShapeInferenceContext, index: usize) -> Option<Self> {
        // Extents that are not known are −1, and are none where not even their number is known.
        let inputs = context.inputs();
        let shape = inputs.get(index)?.tensor_shape()?;
        let is_known = !shape.is_empty() && shape.iter().all(|extent| *extent > 0);
        is_known.then(|| Self { shape: shape.to_vec() })
    }

    /// With one entry a row.
    pub(super) fn of_rows(&self) -> Vec<i64> {
        let (_, rows) = self.shape.split_last().expect("it has an axis");
        [rows, &[1]].concat()
    }

    /// Declares an output.
    pub(super) fn declare(context: &mut ShapeInferenceContext, index: usize, shape: Vec<i64>) -> ort::Result<()> {
        let dimension_symbols = SymbolicDimensions::empty(shape.len());
        let shape: Shape = shape.into();
        context.set_output(index, &ValueType::Tensor { ty: TensorElementType::Float32, shape, dimension_symbols })
    }
}

pub(super) fn failed(name: &str, what: &str) -> ort::Error {
    ort::Error::new(format!("a {DOMAIN}:{name} cannot be done: {what}"))
}

/// Whether a tensor of shape `small` is repeated along the first axes of one of shape `whole`, and along no other.
pub(super) fn repeats(whole: &[i64], small: &[i64]) -> bool {
    let first = small.iter().take_while(|extent| **extent == 1).count();
    whole.len() >= small.len() && whole.ends_with(&small[first..])
}
