//! Tensors that wrap the caller's slices, and outputs that a session reuses from run to run.

use super::super::backend::bound_shape;
use super::errors::one_line;
use damper_onnx::{TensorRef, TensorSpec};
use ort::memory::{Allocator, MemoryInfo};
use ort::value::Tensor;
use ort::{AsPointer as _, Error, sys};
use std::ffi::{CString, c_void};
use std::{ptr, slice};

/// Names of `specs` as C strings, as onnxruntime takes them.
pub(super) fn names(specs: &[TensorSpec]) -> Result<Vec<CString>, String> {
    specs.iter().map(|spec| CString::new(spec.name.as_str()).map_err(|error| error.to_string())).collect()
}

/// Output in the processor's memory.
pub(super) struct Made {
    pub(super) tensor: Tensor<f32>,
    pub(super) len: usize,
}

impl Made {
    /// Allocates processor memory for output `spec` with `batch` rows.
    pub(super) fn new(spec: &TensorSpec, batch: usize) -> Result<Self, String> {
        let tensor = Tensor::<f32>::new(&Allocator::default(), bound_shape(spec, batch));
        let tensor = tensor.map_err(|error| format!("no memory for output '{}': {}", spec.name, one_line(&error)))?;
        Ok(Self { len: spec.elements(batch), tensor })
    }

    pub(super) fn entries(&self) -> &[f32] {
        match self.len {
            0 => &[],
            // SAFETY: the tensor was allocated in the processor's memory for `len` floats, and is borrowed.
            len => unsafe { slice::from_raw_parts(self.tensor.data_ptr().cast(), len) },
        }
    }
}

/// onnxruntime tensor that wraps the slice of the last run. Only runs over that slice read it.
pub(super) struct Around {
    shape: Vec<i64>,
    /// Address of the slice.
    address: usize,
    /// Null before the first run.
    value: *mut sys::OrtValue,
}

// SAFETY: the value has no other owner and is not bound to a thread.
unsafe impl Send for Around {}

impl Around {
    pub(super) fn new(shape: Vec<usize>) -> Self {
        Self { shape: shape.into_iter().map(|extent| extent as i64).collect(), address: 0, value: ptr::null_mut() }
    }

    /// Tensor that wraps `input`, which has as many entries as its shape.
    pub(super) fn value(
        &mut self,
        input: &TensorRef<'_>,
        memory: &MemoryInfo<'_>,
    ) -> ort::Result<*const sys::OrtValue> {
        use sys::ONNXTensorElementDataType as Kind;
        let (first, bytes, kind): (*const c_void, _, _) = match input {
            TensorRef::F32(entries) => {
                (entries.as_ptr().cast(), size_of_val(*entries), Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
            }
            TensorRef::I64(entries) => {
                (entries.as_ptr().cast(), size_of_val(*entries), Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
            }
        };
        if self.value.is_null() || self.address != first.addr() {
            let mut value = ptr::null_mut();
            let (shape, rank) = (self.shape.as_ptr(), self.shape.len());
            // SAFETY: the pointers match the lengths passed, and a run writes to no input.
            unsafe {
                let first = first.cast_mut();
                let make = ort::api().CreateTensorWithDataAsOrtValue;
                Error::result_from_status(make(memory.ptr(), first, bytes, shape, rank, kind, &mut value))?;
            }
            self.release();
            (self.address, self.value) = (first.addr(), value);
        }
        Ok(self.value)
    }

    fn release(&mut self) {
        if !self.value.is_null() {
            // SAFETY: the value was created here, and nothing uses it afterwards.
            unsafe { (ort::api().ReleaseValue)(self.value) };
            self.value = ptr::null_mut();
        }
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        self.release();
    }
}
