//! Session with bound inputs and outputs, as on a device. Kept inputs are uploaded once, and outputs go to the
//! processor's memory.

use super::super::backend::{BackendError, Session, SessionSpec, bound_shape, check_inputs};
use super::super::inputs::Inputs;
use super::around::{Around, Made, names};
use super::binding::Binding;
use super::errors::one_line;
use damper_onnx::TensorRef;
use ort::AsPointer as _;
use ort::memory::MemoryInfo;
use std::ffi::CString;
use std::ops::Range;

pub(super) struct BoundSession {
    // Declared before the session because it must be dropped first.
    inputs: BoundInputs,
    binding: Binding,
    session: ort::session::Session,
    outputs: Vec<Made>,
}

impl BoundSession {
    /// Wraps a session whose inputs and outputs are those of the plan.
    pub(super) fn new(session: ort::session::Session, plan: &SessionSpec) -> Result<Self, String> {
        let mut binding = Binding::new(&session).map_err(|error| one_line(&error))?;
        let outputs: Vec<Made> =
            plan.outputs.iter().map(|spec| Made::new(spec, plan.batch)).collect::<Result<_, _>>()?;
        for (name, made) in names(&plan.outputs)?.iter().zip(&outputs) {
            // SAFETY: the tensor has the output's shape and lives as long as the binding. It is only read between runs.
            unsafe { binding.output(name, made.tensor.ptr()) }.map_err(|error| one_line(&error))?;
        }
        Ok(Self { inputs: BoundInputs::new(plan)?, binding, session, outputs })
    }

    fn run_bound(
        &mut self,
        inputs: &[TensorRef<'_>],
        kept: (u64, Range<usize>),
        read: &mut dyn FnMut(&[&[f32]]),
    ) -> Result<(), BackendError> {
        check_inputs(&self.inputs.plan, inputs)?;
        let bound = self.inputs.bind(&mut self.binding, inputs, kept);
        bound.and_then(|()| self.binding.run(&mut self.session)).map_err(failed)?;
        let slices: Vec<&[f32]> = self.outputs.iter().map(Made::entries).collect();
        read(&slices);
        Ok(())
    }
}

impl Session for BoundSession {
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        self.run_bound(inputs, (0, 0..0), read)
    }

    fn run_kept(&mut self, inputs: Inputs<'_>, read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        self.run_bound(&inputs.all(), kept(&inputs), read)
    }
}

/// Number of the kept inputs, and their index range among all inputs.
pub(super) fn kept(inputs: &Inputs<'_>) -> (u64, Range<usize>) {
    (inputs.kept.number(), inputs.before.len()..inputs.before.len() + inputs.kept.len())
}

pub(super) fn failed(error: ort::Error) -> BackendError {
    BackendError(format!("onnxruntime failed: {}", one_line(&error)))
}

/// Inputs of a plan, and those of them that are bound.
pub(super) struct BoundInputs {
    pub(super) plan: SessionSpec,
    memory: MemoryInfo<'static>,
    around: Vec<Around>,
    names: Vec<CString>,
    /// Number and index range of the bound kept inputs. The number is 0 if there are none.
    kept: (u64, Range<usize>),
}

impl BoundInputs {
    pub(super) fn new(plan: &SessionSpec) -> Result<Self, String> {
        Ok(Self {
            memory: MemoryInfo::default(),
            around: plan.inputs.iter().map(|spec| Around::new(bound_shape(spec, plan.batch))).collect(),
            names: names(&plan.inputs)?,
            kept: (0, 0..0),
            plan: plan.clone(),
        })
    }

    /// Binds `inputs`, which fit the plan, for one run. Kept inputs that are already bound stay bound.
    pub(super) fn bind(
        &mut self,
        binding: &mut Binding,
        inputs: &[TensorRef<'_>],
        kept: (u64, Range<usize>),
    ) -> ort::Result<()> {
        let stays = kept.0 != 0 && self.kept == kept;
        self.kept.0 = 0;
        for (index, ((around, name), input)) in self.around.iter_mut().zip(&self.names).zip(inputs).enumerate() {
            if !(stays && kept.1.contains(&index)) {
                let value = around.value(input, &self.memory)?;
                // SAFETY: the input is valid in this run. Later runs use it only if it is kept, and then it is still
                // borrowed.
                unsafe { binding.input(name, value)? };
            }
        }
        self.kept = kept;
        Ok(())
    }
}
