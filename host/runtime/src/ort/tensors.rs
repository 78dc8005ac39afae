//! Tensors of a call of a custom operator, as onnxruntime holds them: what `ort` hands out is made again for each call, with its
//! shape, and a small network's forward pass is not much longer than that.

use ort::operator::ComputeContext;
use ort::{AsPointer as _, Error, sys};
use std::{ptr, slice};

/// A call, whose tensors stay where they are until it is over.
pub(super) struct Call<'a>(&'a ComputeContext);

/// An input.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'a> {
    pub(super) shape: &'a [i64],
    pub(super) entries: &'a [f32],
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// There is one of a context, and the operator runs in the processor's memory and declares outputs of floats.
    pub(super) unsafe fn new(context: &'a ComputeContext) -> Self {
        Self(context)
    }

    /// All inputs, `None` where one is absent.
    pub(super) fn inputs(&self) -> ort::Result<Vec<Option<Tensor<'a>>>> {
        (0..self.0.num_inputs()?).map(|index| self.input(index)).collect()
    }

    fn input(&self, index: usize) -> ort::Result<Option<Tensor<'a>>> {
        let api = ort::api();
        let mut value = ptr::null();
        // SAFETY: the context is the call's; the function writes where it is told, and what it returns is the status that is asked for.
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
        // SAFETY: the shape is the tensor's own, which is of floats in the processor's memory, and stays until the call is over.
        unsafe {
            let shape = held(extents, rank);
            Ok(Some(Tensor { shape, entries: held(entries.cast(), len(shape)) }))
        }
    }

    /// The entries of all outputs, of these shapes; `None` of one that is not asked for or not taken.
    pub(super) fn outputs(self, shapes: &[Vec<i64>]) -> ort::Result<Vec<Option<&'a mut [f32]>>> {
        shapes.iter().enumerate().map(|(index, shape)| self.output(index, shape)).collect()
    }

    fn output(&self, index: usize, shape: &[i64]) -> ort::Result<Option<&'a mut [f32]>> {
        let (api, context) = (ort::api(), self.0.ptr().cast_mut());
        let (mut value, mut entries) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as of an input; the shape is read as far as it reaches.
        unsafe {
            let status = (api.KernelContext_GetOutput)(context, index, shape.as_ptr(), shape.len(), &mut value);
            Error::result_from_status(status)?;
        }
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: as of an input, and the value is an output of the call.
        unsafe { Error::result_from_status((api.GetTensorMutableData)(value, &mut entries))? };
        Ok(Some(match len(shape) {
            0 => &mut [],
            // SAFETY: as of an input; no other slice has them, since there is one `Call`, which hands out each output once.
            len => unsafe { slice::from_raw_parts_mut(entries.cast(), len) },
        }))
    }
}

fn len(shape: &[i64]) -> usize {
    shape.iter().map(|extent| *extent as usize).product()
}

/// # Safety
///
/// That of a slice, unless there is nothing in it.
unsafe fn held<'a, T>(first: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: as promised.
        len => unsafe { slice::from_raw_parts(first, len) },
    }
}
