//! Tensors of a custom operator's call, read directly from onnxruntime's memory. `ort` creates tensors with their
//! shapes in each call, which takes about as long as a small network's forward pass.

use ort::operator::ComputeContext;
use ort::{AsPointer as _, Error, sys};
use std::{ptr, slice};

/// Call of an operator. Its tensors stay in place until it returns.
pub(super) struct Call<'a>(&'a ComputeContext);

/// Input tensor.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'a> {
    pub(super) shape: &'a [i64],
    pub(super) entries: &'a [f32],
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// There must be only one `Call` for a context. The operator must run in the processor's memory and declare float
    /// outputs.
    pub(super) unsafe fn new(context: &'a ComputeContext) -> Self {
        Self(context)
    }

    /// All inputs, `None` for an absent input.
    pub(super) fn inputs(&self) -> ort::Result<Vec<Option<Tensor<'a>>>> {
        (0..self.0.num_inputs()?).map(|index| self.input(index)).collect()
    }

    fn input(&self, index: usize) -> ort::Result<Option<Tensor<'a>>> {
        let api = ort::api();
        let mut value = ptr::null();
        // SAFETY: the context is that of the call. The function writes to `value` and returns a status.
        unsafe { Error::result_from_status((api.KernelContext_GetInput)(self.0.ptr(), index, &mut value))? };
        if value.is_null() {
            return Ok(None);
        }
        let float = sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
        let (mut kind, mut extents, mut rank, mut entries) = (float, ptr::null(), 0, ptr::null());
        // SAFETY: as above, and the value is an input of the call.
        unsafe {
            let status = (api.GetTensorElementTypeAndShapeDataReference)(value, &mut kind, &mut extents, &mut rank);
            Error::result_from_status(status)?;
            Error::result_from_status((api.GetTensorData)(value, &mut entries))?;
        }
        if kind != float {
            return Err(Error::new("an input is not of floats"));
        }
        // SAFETY: shape and entries belong to the tensor, which has floats in the processor's memory and lives until
        // the call returns.
        unsafe {
            let shape = held(extents, rank);
            Ok(Some(Tensor { shape, entries: held(entries.cast(), len(shape)) }))
        }
    }

    /// Entries of all outputs, with these shapes. `None` if an output has no shape or is not used.
    pub(super) fn outputs(self, shapes: &[Vec<i64>]) -> ort::Result<Vec<Option<&'a mut [f32]>>> {
        shapes.iter().enumerate().map(|(index, shape)| self.output(index, shape)).collect()
    }

    fn output(&self, index: usize, shape: &[i64]) -> ort::Result<Option<&'a mut [f32]>> {
        let (api, context) = (ort::api(), self.0.ptr().cast_mut());
        let (mut value, mut entries) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as for an input. The call reads `shape` up to its length.
        unsafe {
            let status = (api.KernelContext_GetOutput)(context, index, shape.as_ptr(), shape.len(), &mut value);
            Error::result_from_status(status)?;
        }
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: as for an input, and the value is an output of the call.
        unsafe { Error::result_from_status((api.GetTensorMutableData)(value, &mut entries))? };
        Ok(Some(match len(shape) {
            0 => &mut [],
            // SAFETY: as for an input. No other slice aliases it, since the only `Call` returns each output once.
            len => unsafe { slice::from_raw_parts_mut(entries.cast(), len) },
        }))
    }
}

fn len(shape: &[i64]) -> usize {
    shape.iter().map(|extent| *extent as usize).product()
}

/// # Safety
///
/// As for `slice::from_raw_parts`, unless `len` is 0.
unsafe fn held<'a, T>(first: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: as the caller guarantees.
        len => unsafe { slice::from_raw_parts(first, len) },
    }
}
