//! Runs of a loaded model over the caller's slices.
//!
//! `ort` creates a tensor and a name for each slice in every run. That takes 0.3 µs for each input, and every parameter
//! of a network is an input. This session creates names once. It recreates a tensor only if the slice has moved since
//! the last run.

use super::super::backend::{BackendError, Session, SessionSpec, bound_shape, check_inputs};
use super::around::{Around, Made, names};
use super::errors::one_line;
use damper_onnx::{Floats, TensorRef};
use ort::memory::MemoryInfo;
use ort::{AsPointer as _, Error};
use std::ffi::{CString, c_char};
use std::ptr;

pub(super) struct OrtSession {
    session: ort::session::Session,
    plan: SessionSpec,
    /// Last inputs, which are not in the plan.
    frozen: Vec<Floats>,
    memory: MemoryInfo<'static>,
    inputs: Vec<Around>,
    /// Buffers that onnxruntime writes and `read` gets.
    outputs: Vec<Made>,
    /// Names of inputs and outputs, in order.
    input_names: Vec<CString>,
    output_names: Vec<CString>,
}

impl OrtSession {
    /// Wraps a session whose inputs are those of `whole`, in order: the plan's inputs, then `frozen`.
    pub(super) fn new(
        session: ort::session::Session,
        plan: &SessionSpec,
        whole: SessionSpec,
        frozen: Vec<Floats>,
    ) -> Result<Self, String> {
        Ok(Self {
            session,
            memory: MemoryInfo::default(),
            inputs: whole.inputs.iter().map(|spec| Around::new(bound_shape(spec, plan.batch))).collect(),
            outputs: plan.outputs.iter().map(|spec| Made::new(spec, plan.batch)).collect::<Result<_, _>>()?,
            input_names: names(&whole.inputs)?,
            frozen,
            output_names: names(&plan.outputs)?,
            plan: plan.clone(),
        })
    }

    fn compute(&mut self, inputs: &[TensorRef<'_>]) -> ort::Result<()> {
        let given = inputs.iter().copied().chain(self.frozen.iter().map(|entries| TensorRef::F32(entries)));
        let values = self.inputs.iter_mut().zip(given).map(|(around, input)| around.value(&input, &self.memory));
        let values = values.collect::<ort::Result<Vec<_>>>()?;
        let mut made: Vec<_> = self.outputs.iter_mut().map(|output| output.tensor.ptr_mut()).collect();
        let pointers = |names: &[CString]| names.iter().map(|name| name.as_ptr()).collect::<Vec<*const c_char>>();
        let names = [pointers(&self.input_names), pointers(&self.output_names)];
        // SAFETY: names and values have the lengths passed and live during the call. Each value wraps one of `inputs`,
        // and the session is exclusively borrowed.
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

#[cfg(test)]
mod tests {
    use super::super::super::Backend as _;
    use super::super::Ort;
    use super::super::testing::{BATCH, batched, model, node, parameter};
    use damper_onnx::TensorRef;

    #[test]
    fn a_run_reads_the_slices_that_it_is_given() {
        let Ok(backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let inputs = vec![batched("x", &[3]), parameter("w", &[3])];
        let (model, plan) = model(vec![node("y = Add(x, w)")], &[], inputs, vec![batched("y", &[3])]);
        let mut session = backend.load(&model, &plan).unwrap();
        let mut check = |x: &[f32], w: &[f32]| {
            let sums: Vec<f32> = x.iter().zip(w.iter().cycle()).map(|(x, w)| x + w).collect();
            session.run(&[TensorRef::F32(x), TensorRef::F32(w)], &mut |made| assert_eq!(made, [&sums[..]])).unwrap();
        };
        let (mut x, mut w) = (vec![1.0; BATCH * 3], vec![0.5, 2.0, -3.0]);
        check(&x, &w);
        // Same address, other values.
        (x[4], w[1]) = (7.0, 11.0);
        check(&x, &w);
        // Another address, then the first address again, whose tensor was replaced in between.
        let elsewhere = w.iter().map(|w| w + 1.0).collect::<Vec<_>>();
        check(&x, &elsewhere);
        check(&x, &w);
        let rows = [x.clone(), x.iter().map(|x| -x).collect()].concat();
        for rows in rows.chunks(x.len()) {
            check(rows, &elsewhere);
        }
    }
}
