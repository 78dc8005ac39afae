//! Runs of a loaded model over the caller's slices.
//!
//! `ort` makes a tensor around each slice, and a name for it, again for each run: 0.3 µs an input, of which a network has one for each of
//! its parameters. Here the names are made once, and a tensor is made again only where a slice lies elsewhere than in the last run.

use super::super::backend::{BackendError, Plan, Session, bound_shape, check_inputs};
use super::errors::one_line;
use damper_onnx::TensorRef;
use ort::memory::{Allocator, MemoryInfo};
use ort::value::Tensor;
use ort::{AsPointer as _, Error, sys};
use std::ffi::{CString, c_char, c_void};
use std::{ptr, slice};

pub(super) struct OrtSession {
    session: ort::session::Session,
    plan: Plan,
    memory: MemoryInfo<'static>,
    inputs: Vec<Around>,
    /// onnxruntime writes into them, `read` sees them.
    outputs: Vec<Made>,
    /// Of both, in their order.
    input_names: Vec<CString>,
    output_names: Vec<CString>,
}

impl OrtSession {
    /// A session's, whose inputs are the plan's, in their order.
    pub(super) fn new(session: ort::session::Session, plan: &Plan) -> Result<Self, String> {
        let name = |name: &str| CString::new(name).map_err(|error| error.to_string());
        let made = |spec| {
            let tensor = Tensor::<f32>::new(&Allocator::default(), bound_shape(spec, plan.batch));
            let tensor = tensor.map_err(|error| format!("no memory for output '{}': {}", spec.name, one_line(&error)));
            tensor.map(|tensor| Made { len: spec.elements(plan.batch), tensor })
        };
        Ok(Self {
            session,
            memory: MemoryInfo::default(),
            inputs: plan.inputs.iter().map(|spec| Around::new(bound_shape(spec, plan.batch))).collect(),
            outputs: plan.outputs.iter().map(made).collect::<Result<_, _>>()?,
            input_names: plan.inputs.iter().map(|spec| name(&spec.name)).collect::<Result<_, _>>()?,
            output_names: plan.outputs.iter().map(|spec| name(&spec.name)).collect::<Result<_, _>>()?,
            plan: plan.clone(),
        })
    }

    fn compute(&mut self, inputs: &[TensorRef<'_>]) -> ort::Result<()> {
        let values = self.inputs.iter_mut().zip(inputs).map(|(around, input)| around.value(input, &self.memory));
        let values = values.collect::<ort::Result<Vec<_>>>()?;
        let mut made: Vec<_> = self.outputs.iter_mut().map(|output| output.tensor.ptr_mut()).collect();
        let pointers = |names: &[CString]| names.iter().map(|name| name.as_ptr()).collect::<Vec<*const c_char>>();
        let names = [pointers(&self.input_names), pointers(&self.output_names)];
        // SAFETY: names and values are as many as it is told, and stay until it returns; each value is around one of `inputs`; the session
        // is borrowed alone.
        unsafe {
            Error::result_from_status((ort::api().Run)(
                self.session.ptr().cast_mut(),
                ptr::null(),
                names[0].as_ptr(),
                values.as_ptr(),
                values.len(),
                names[1].as_ptr(),
                made.len(),
                made.as_mut_ptr(),
            ))
        }
    }
}

impl Session for OrtSession {
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        check_inputs(&self.plan, inputs)?;
        self.compute(inputs).map_err(|error| BackendError(format!("onnxruntime failed: {}", one_line(&error))))?;
        let slices: Vec<&[f32]> = self.outputs.iter().map(Made::entries).collect();
        read(&slices);
        Ok(())
    }
}

/// An output.
struct Made {
    tensor: Tensor<f32>,
    len: usize,
}

impl Made {
    fn entries(&self) -> &[f32] {
        match self.len {
            0 => &[],
            // SAFETY: the tensor was made in the processor's memory for so many floats, and is borrowed.
            len => unsafe { slice::from_raw_parts(self.tensor.data_ptr().cast(), len) },
        }
    }
}

/// onnxruntime's tensor around a slice of the last run, which is read in runs over that very slice alone.
struct Around {
    shape: Vec<i64>,
    /// Where the slice lay.
    address: usize,
    /// Null before the first run.
    value: *mut sys::OrtValue,
}

// SAFETY: the value is nobody else's, and belongs to no thread.
unsafe impl Send for Around {}

impl Around {
    fn new(shape: Vec<usize>) -> Self {
        Self { shape: shape.into_iter().map(|extent| extent as i64).collect(), address: 0, value: ptr::null_mut() }
    }

    /// The tensor around `input`, which has as many entries as the shape says.
    fn value(&mut self, input: &TensorRef<'_>, memory: &MemoryInfo<'_>) -> ort::Result<*const sys::OrtValue> {
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
            // SAFETY: shape and entries are as long as it is told; a run writes to no input.
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
            // SAFETY: it was made here, and is gone then.
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

#[cfg(test)]
mod tests {
    use super::super::super::Backend as _;
    use super::super::Ort;
    use super::super::testing::{BATCH, batched, model, node, parameter};
    use damper_onnx::TensorRef;
    use prost::Message as _;

    #[test]
    fn a_run_reads_the_slices_that_it_is_given() {
        let Ok(backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let inputs = vec![batched("x", &[3]), parameter("w", &[3])];
        let (model, plan) = model(vec![node("y = Add(x, w)")], &[], inputs, vec![batched("y", &[3])]);
        let mut session = backend.load(&model.encode_to_vec(), &plan).unwrap();
        let mut check = |x: &[f32], w: &[f32]| {
            let sums: Vec<f32> = x.iter().zip(w.iter().cycle()).map(|(x, w)| x + w).collect();
            session.run(&[TensorRef::F32(x), TensorRef::F32(w)], &mut |made| assert_eq!(made, [&sums[..]])).unwrap();
        };
        let (mut x, mut w) = (vec![1.0; BATCH * 3], vec![0.5, 2.0, -3.0]);
        check(&x, &w);
        // Where they are, with others in them.
        (x[4], w[1]) = (7.0, 11.0);
        check(&x, &w);
        // Elsewhere, and back, where the tensor has been another's.
        let elsewhere = w.iter().map(|w| w + 1.0).collect::<Vec<_>>();
        check(&x, &elsewhere);
        check(&x, &w);
        let rows = [x.clone(), x.iter().map(|x| -x).collect()].concat();
        for rows in rows.chunks(x.len()) {
            check(rows, &elsewhere);
        }
    }
}
