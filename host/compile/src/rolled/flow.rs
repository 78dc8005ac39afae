//! Steps of a program over buffers, before they have a place in memory.

use damper_nn::{MAX_RANK, Walk};
use damper_runtime::portable::{Kernel, Kind, Program, ValuePlace};
use std::collections::HashMap;

/// Owner of elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Base {
    /// Constant of the program, by its number.
    Constant(usize),
    /// Input of the program, by its number.
    Input(usize),
    /// Buffer that steps write.
    Buffer(usize),
}

/// Elements of an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) base: Base,
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Span {
    pub(super) fn buffer(&self) -> Option<usize> {
        match self.base {
            Base::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// Kernel with its operands. If it reads what it writes, it overwrites this operand.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) node: String,
    pub(super) kernel: Kernel,
    pub(super) reads: Vec<Span>,
    pub(super) write: Span,
}

/// Steps in order, with the buffers that they write.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) ops: Vec<Op>,
    /// Types and lengths.
    pub(super) buffers: Vec<(Kind, usize)>,
    pub(super) outputs: Vec<Span>,
}

impl Flow {
    /// Creates the steps of `program`: each writes a buffer with its own number. `None` if a value has no elements.
    pub(super) fn new(program: &Program) -> Option<Self> {
        let mut owners: HashMap<ValuePlace, Base> = HashMap::new();
        for (at, (place, _)) in program.constants.iter().enumerate() {
            owners.insert(*place, Base::Constant(at));
        }
        for (at, port) in program.inputs.iter().enumerate() {
            owners.insert(port.place, Base::Input(at));
        }
        let span = |owners: &HashMap<ValuePlace, Base>, place: &ValuePlace| {
            let base = *owners.get(place)?;
            Some(Span { base, kind: place.kind, start: 0, len: place.len })
        };
        let (mut ops, mut buffers) = (vec![], vec![]);
        for step in program.of_parameters.iter().chain(&program.of_sample) {
            let reads = step.reads.iter().map(|place| span(&owners, place)).collect::<Option<Vec<_>>>()?;
            owners.insert(step.write, Base::Buffer(buffers.len()));
            let write = span(&owners, &step.write).filter(|write| write.len > 0)?;
            buffers.push((write.kind, write.len));
            ops.push(Op { node: step.node.clone(), kernel: step.kernel.clone(), reads, write });
        }
        let outputs = program.outputs.iter().map(|port| span(&owners, &port.place)).collect::<Option<Vec<_>>>()?;
        Some(Self { ops, buffers, outputs })
    }
}

/// Row-major strides over the extents of a walk.
pub(super) fn dense<const N: usize>(walk: &Walk<N>) -> [isize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut stride = 1;
    for (to, extent) in strides.iter_mut().zip(&walk.extents).rev() {
        if *extent != 1 {
            *to = stride;
            stride *= *extent as isize;
        }
    }
    strides
}

/// Returns true if the operand of a walk is read in order, without gaps.
pub(super) fn is_dense<const N: usize>(walk: &Walk<N>, operand: usize) -> bool {
    let (strides, dense) = (&walk.strides[operand], dense(walk));
    (0..strides.len()).all(|axis| walk.extents[axis] == 1 || strides[axis] == dense[axis])
}

/// Moves the start of a walk's only operand out of it: returns the walk from element 0 on, and the start.
pub(super) fn from_zero(walk: &Walk<1>) -> (Walk<1>, usize) {
    let [start] = walk.starts;
    // A walk that goes backwards begins at its last element.
    let way = |axis: usize| (walk.extents[axis] as isize - 1) * walk.strides[0][axis].min(0);
    let before: usize = (0..walk.extents.len()).map(way).sum::<isize>().unsigned_abs();
    let first = start - before;
    (Walk { starts: [before], needed: [walk.needed[0] - first], ..*walk }, first)
}
