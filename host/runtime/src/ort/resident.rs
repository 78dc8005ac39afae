//! Outputs that stay in device memory, for kernels that read them there.

use super::super::backend::{BackendError, DeviceFloats, ResidentSession, SessionSpec, bound_shape, check_inputs};
use super::super::inputs::Inputs;
use super::around::names;
use super::binding::Binding;
use super::bound::{BoundInputs, failed, kept};
use super::errors::one_line;
use ort::AsPointer as _;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::value::Tensor;

/// Session with output buffers on the device.
pub(super) struct Resident {
    // Declared before the session because they must be dropped first.
    inputs: BoundInputs,
    binding: Binding,
    outputs: Vec<DeviceFloats>,
    /// Owners of the memory that `outputs` refers to.
    _tensors: Vec<Tensor<f32>>,
    session: ort::session::Session,
}

impl Resident {
    /// Wraps a session whose inputs and outputs are those of the plan. Allocates all memory of the outputs.
    pub(super) fn new(
        session: ort::session::Session,
        device: AllocationDevice<'static>,
        plan: &SessionSpec,
    ) -> Result<Self, String> {
        let memory = device_memory(device).map_err(|error| one_line(&error))?;
        let allocator = Allocator::new(&session, memory).map_err(|error| one_line(&error))?;
        let mut binding = Binding::new(&session).map_err(|error| one_line(&error))?;
        let (mut outputs, mut tensors) = (vec![], vec![]);
        for (spec, name) in plan.outputs.iter().zip(names(&plan.outputs)?) {
            let tensor = Tensor::<f32>::new(&allocator, bound_shape(spec, plan.batch));
            let tensor =
                tensor.map_err(|error| format!("no memory for output '{}': {}", spec.name, one_line(&error)))?;
            // SAFETY: the tensor has the output's shape and lives as long as the binding. It is only read between runs.
            unsafe { binding.output(&name, tensor.ptr()) }.map_err(|error| one_line(&error))?;
            outputs
                .push(DeviceFloats { address: tensor.data_ptr().expose_provenance(), len: spec.elements(plan.batch) });
            tensors.push(tensor);
        }
        Ok(Self { inputs: BoundInputs::new(plan)?, binding, outputs, _tensors: tensors, session })
    }
}

impl ResidentSession for Resident {
    fn run(&mut self, inputs: Inputs<'_>) -> Result<(), BackendError> {
        let all = inputs.all();
        check_inputs(&self.inputs.plan, &all)?;
        let bound = self.inputs.bind(&mut self.binding, &all, kept(&inputs));
        bound.and_then(|()| self.binding.run(&mut self.session)).map_err(failed)
    }

    fn outputs(&self) -> &[DeviceFloats] {
        &self.outputs
    }
}

/// Memory description of a device.
pub(super) fn device_memory(device: AllocationDevice<'static>) -> ort::Result<MemoryInfo<'static>> {
    MemoryInfo::new(device, 0, AllocatorType::Device, MemoryType::Default)
}
