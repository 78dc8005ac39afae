//! Runs a program, one sample at a time.

use super::kernel::Call;
use super::program::{Port, Program, ProgramStep, ValuePlace};
use super::value::{Data, Kind, Slice, SliceMut, Stage};
use crate::backend::{BackendError, Session, SessionSpec, check_inputs};
use damper_onnx::{Dim, TensorRef};
use pulp::Arch;

/// Memory of a program.
struct Areas {
    f32: Vec<f32>,
    i64: Vec<i64>,
    bool: Vec<bool>,
}

pub(super) struct PortableSession {
    program: Program,
    plan: SessionSpec,
    areas: Areas,
    outputs: Vec<Vec<f32>>,
    vectors: Arch,
}

impl PortableSession {
    pub(super) fn new(program: Program, plan: &SessionSpec) -> Self {
        let [f32, i64, bool] = program.areas;
        let mut areas = Areas { f32: vec![0.0; f32], i64: vec![0; i64], bool: vec![false; bool] };
        for (place, data) in &program.constants {
            let range = place.start..place.start + place.len;
            match data {
                Data::F32(data) => areas.f32[range].copy_from_slice(data),
                Data::I64(data) => areas.i64[range].copy_from_slice(data),
                Data::Bool(data) => areas.bool[range].copy_from_slice(data),
            }
        }
        let outputs = plan.outputs.iter().map(|spec| vec![0.0; spec.elements(plan.batch)]).collect();
        Self { program, plan: plan.clone(), areas, outputs, vectors: Arch::new() }
    }
}

impl Session for PortableSession {
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        check_inputs(&self.plan, inputs)?;
        let Self { program, plan, areas, outputs, vectors } = self;
        let of_stage = |stage: Stage| program.inputs.iter().zip(inputs).filter(move |(port, _)| port.stage == stage);
        for (port, input) in of_stage(Stage::Parameters) {
            areas.feed(port, *input, 0, 1);
        }
        program.of_parameters.iter().try_for_each(|step| areas.run(step, *vectors))?;
        for row in 0..plan.batch {
            for (port, input) in of_stage(Stage::Sample) {
                areas.feed(port, *input, row, plan.batch);
            }
            program.of_sample.iter().try_for_each(|step| areas.run(step, *vectors))?;
            for (port, output) in program.outputs.iter().zip(outputs.iter_mut()) {
                let value = &areas.f32[port.place.start..][..port.place.len];
                rows(port, row, plan.batch, |from, to, len| {
                    output[to..to + len].copy_from_slice(&value[from..from + len])
                });
            }
        }
        let slices: Vec<&[f32]> = outputs.iter().map(Vec::as_slice).collect();
        read(&slices);
        Ok(())
    }
}

/// Calls `piece` with the segments of one sample's tensor and their offsets in the batch.
fn rows(port: &Port, row: usize, batch: usize, mut piece: impl FnMut(usize, usize, usize)) {
    let shape = &port.spec.shape;
    let Some(axis) = shape.iter().position(|dim| *dim == Dim::Batch) else { return piece(0, 0, port.place.len) };
    let inner: usize = shape[axis + 1..].iter().map(|dim| dim.extent(1)).product();
    for outer in 0..port.place.len.checked_div(inner).unwrap_or(0) {
        piece(outer * inner, (outer * batch + row) * inner, inner);
    }
}

impl Areas {
    /// Copies the sample in row `row` of `input` to its location.
    fn feed(&mut self, port: &Port, input: TensorRef<'_>, row: usize, batch: usize) {
        let start = port.place.start;
        match input {
            TensorRef::F32(values) => rows(port, row, batch, |to, from, len| {
                self.f32[start + to..][..len].copy_from_slice(&values[from..from + len]);
            }),
            TensorRef::I64(values) => rows(port, row, batch, |to, from, len| {
                self.i64[start + to..][..len].copy_from_slice(&values[from..from + len]);
            }),
        }
    }

    fn run(&mut self, step: &ProgramStep, vectors: Arch) -> Result<(), BackendError> {
        let Self { f32, i64, bool } = self;
        let write = step.write;
        // Splits the written area in three. Operands are before or after the result.
        let (mut parts_f32, mut parts_i64, mut parts_bool) = (Parts::whole(f32), Parts::whole(i64), Parts::whole(bool));
        let out = match write.kind {
            Kind::F32 => SliceMut::F32(parts_f32.take(write)),
            Kind::I64 => SliceMut::I64(parts_i64.take(write)),
            Kind::Bool => SliceMut::Bool(parts_bool.take(write)),
        };
        let slice = |place: &ValuePlace| match place.kind {
            Kind::F32 => Slice::F32(parts_f32.get(*place)),
            Kind::I64 => Slice::I64(parts_i64.get(*place)),
            Kind::Bool => Slice::Bool(parts_bool.get(*place)),
        };
        let mut few = [Slice::F32(&[]); 3];
        let many: Vec<Slice<'_>>;
        let reads = match few.get_mut(..step.reads.len()) {
            Some(few) => {
                few.iter_mut().zip(&step.reads).for_each(|(slice_of, place)| *slice_of = slice(place));
                &*few
            }
            None => {
                many = step.reads.iter().map(slice).collect();
                &many
            }
        };
        vectors
            .dispatch(Call { kernel: &step.kernel, reads, out })
            .map_err(|error| BackendError(format!("portable failed at node '{}': {error}", step.node)))
    }
}

/// Memory area without the range that is written.
struct Parts<'a, T> {
    before: &'a mut [T],
    behind: &'a mut [T],
    /// Index at which `behind` begins.
    start: usize,
}

impl<'a, T> Parts<'a, T> {
    fn whole(area: &'a mut [T]) -> Self {
        Self { start: area.len(), before: area, behind: &mut [] }
    }

    fn take(&mut self, place: ValuePlace) -> &'a mut [T] {
        let (before, rest) = std::mem::take(&mut self.before).split_at_mut(place.start);
        let (taken, behind) = rest.split_at_mut(place.len);
        *self = Self { before, behind, start: place.start + place.len };
        taken
    }

    fn get(&self, place: ValuePlace) -> &[T] {
        match place.start.checked_sub(self.start) {
            Some(start) => &self.behind[start..][..place.len],
            None => &self.before[place.start..][..place.len],
        }
    }
}
