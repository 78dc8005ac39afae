//! Outputs that are summed over the chunks of a step in device memory.
//!
//! The graph adds to the sum so far. The output of one run is the input of the next, in two buffers that swap. The
//! first chunk starts from zeros, and the last chunk writes to the processor's memory. So a sum crosses the bus once
//! per step.

use super::super::backend::{BackendError, ChunkPlace, SessionSpec, SummingSession, bound_shape, check_inputs};
use super::super::inputs::Inputs;
use super::around::{Around, Made, names};
use super::binding::Binding;
use super::bound::{BoundInputs, failed, kept};
use super::errors::one_line;
use super::resident::device_memory;
use damper_onnx::{Extent, TensorRef, TensorSpec, make_node, make_value_info, pb};
use ort::AsPointer as _;
use ort::memory::{AllocationDevice, Allocator, MemoryInfo};
use ort::value::Tensor;
use std::ffi::CString;

/// Sums of a plan, which are its last outputs.
pub(super) struct Totals {
    first: usize,
    /// Inputs of the graph for the sums so far.
    before: Vec<TensorSpec>,
}

/// Replaces the outputs of `model` from `first` on by the sums so far plus these outputs. `model` is bound to `plan`.
pub(super) fn add_totals(model: &mut pb::ModelProto, plan: &SessionSpec, first: usize) -> Totals {
    let sums = &plan.outputs[first..];
    let before: Vec<_> =
        sums.iter().map(|spec| TensorSpec { name: format!("dp.before.{}", spec.name), ..spec.clone() }).collect();
    let Some(graph) = &mut model.graph else { return Totals { first, before } };
    for (sum, before) in sums.iter().zip(&before) {
        let own = format!("dp.own.{}", sum.name);
        let names = graph.node.iter_mut().flat_map(|node| node.output.iter_mut().chain(&mut node.input));
        names.filter(|name| **name == sum.name).for_each(|name| name.clone_from(&own));
        graph.node.push(make_node("Add", &format!("{}.add", before.name), &[&before.name, &own], &[&sum.name], vec![]));
        let extents: Vec<_> = bound_shape(before, plan.batch).into_iter().map(Extent::Fixed).collect();
        graph.input.push(make_value_info(&before.name, before.dtype, &extents));
    }
    Totals { first, before }
}

/// Session of such a graph.
pub(super) struct Summing {
    inputs: BoundInputs,
    binding: Binding,
    /// Buffers of the sums. The first is the input of the next run, the second its output.
    totals: [Vec<Tensor<f32>>; 2],
    zeros: Vec<f32>,
    zero: Vec<Around>,
    memory: MemoryInfo<'static>,
    names: Names,
    session: ort::session::Session,
    /// Outputs in the processor's memory.
    outputs: Vec<Made>,
    first: usize,
    /// True if the next chunk may be other than a first chunk.
    is_begun: bool,
}

struct Names {
    before: Vec<CString>,
    outputs: Vec<CString>,
}

impl Summing {
    pub(super) fn new(
        session: ort::session::Session,
        device: AllocationDevice<'static>,
        plan: &SessionSpec,
        Totals { first, before }: Totals,
    ) -> Result<Self, String> {
        let explain = |error: ort::Error| format!("no memory for the sums: {}", one_line(&error));
        let allocator = Allocator::new(&session, device_memory(device).map_err(explain)?).map_err(explain)?;
        let total = |spec: &TensorSpec| Tensor::<f32>::new(&allocator, bound_shape(spec, plan.batch)).map_err(explain);
        let totals = || before.iter().map(total).collect::<Result<Vec<_>, _>>();
        let mut binding = Binding::new(&session).map_err(|error| one_line(&error))?;
        let outputs: Vec<Made> =
            plan.outputs.iter().map(|spec| Made::new(spec, plan.batch)).collect::<Result<_, _>>()?;
        let names = Names { before: names(&before)?, outputs: names(&plan.outputs)? };
        for (name, made) in names.outputs.iter().zip(&outputs) {
            // SAFETY: the tensor has the output's shape and lives as long as the binding. It is only read between runs.
            unsafe { binding.output(name, made.tensor.ptr()) }.map_err(|error| one_line(&error))?;
        }
        Ok(Self {
            inputs: BoundInputs::new(plan)?,
            binding,
            totals: [totals()?, totals()?],
            zeros: vec![0.0; before.iter().map(|spec| spec.elements(plan.batch)).max().unwrap_or(0)],
            zero: before.iter().map(|spec| Around::new(bound_shape(spec, plan.batch))).collect(),
            memory: MemoryInfo::default(),
            names,
            session,
            outputs,
            first,
            is_begun: false,
        })
    }

    /// Binds the sums for one run.
    fn bind_totals(&mut self, place: ChunkPlace) -> ort::Result<()> {
        let [from, to] = &self.totals;
        let sums = self.names.before.iter().zip(&self.names.outputs[self.first..]).enumerate();
        for (index, (before, after)) in sums {
            let made = &self.outputs[self.first + index];
            let so_far = match place.is_first {
                true => self.zero[index].value(&TensorRef::F32(&self.zeros[..made.len]), &self.memory)?,
                false => from[index].ptr(),
            };
            let next = if place.is_last { made.tensor.ptr() } else { to[index].ptr() };
            // SAFETY: all are tensors of the sum's shape that live as long as the binding. Output and input differ.
            unsafe {
                self.binding.input(before, so_far)?;
                self.binding.output(after, next)?;
            }
        }
        Ok(())
    }
}

impl SummingSession for Summing {
    fn add(
        &mut self,
        inputs: Inputs<'_>,
        place: ChunkPlace,
        read: &mut dyn FnMut(&[&[f32]]),
    ) -> Result<(), BackendError> {
        let all = inputs.all();
        check_inputs(&self.inputs.plan, &all)?;
        if !(place.is_first || self.is_begun) {
            return Err(BackendError("a chunk without the chunks before it: begin with the first".into()));
        }
        self.is_begun = false;
        self.bind_totals(place).map_err(failed)?;
        self.inputs.bind(&mut self.binding, &all, kept(&inputs)).map_err(failed)?;
        self.binding.run(&mut self.session).map_err(failed)?;
        self.totals.swap(0, 1);
        self.is_begun = !place.is_last;
        let count = if place.is_last { self.outputs.len() } else { self.first };
        let slices: Vec<&[f32]> = self.outputs[..count].iter().map(Made::entries).collect();
        read(&slices);
        Ok(())
    }
}
