//! Checks that a plan computes what its flow computes.

use super::chain::positions;
use super::flow::{Base, Flow, Op, Span};
use super::plan::{Place, Plan};
use damper_runtime::portable::{Kernel, Kind};

/// Contents of memory: the buffer and the element in each place.
struct Memory([Vec<Option<(usize, usize)>>; 3]);

impl Memory {
    fn cells(&mut self, kind: Kind) -> &mut [Option<(usize, usize)>] {
        match kind {
            Kind::F32 => &mut self.0[0],
            Kind::I64 => &mut self.0[1],
            Kind::Bool => &mut self.0[2],
        }
    }

    /// Returns true if the elements of `want` are at `place`.
    fn has(&mut self, want: &Span, place: &Span) -> bool {
        if (want.kind, want.len) != (place.kind, place.len) {
            return false;
        }
        let Base::Buffer(buffer) = want.base else { return want == place };
        let is_memory = matches!(place.base, Base::Buffer(_));
        let cells = self.cells(want.kind).get(place.start..place.start + place.len);
        let is_it = |(at, cell): (usize, &Option<(usize, usize)>)| *cell == Some((buffer, want.start + at));
        is_memory && cells.is_some_and(|cells| cells.iter().enumerate().all(is_it))
    }

    /// Writes the elements of the operator's result at `place`.
    fn write(&mut self, op: &Op, place: &Span) -> bool {
        let (Base::Buffer(buffer), Base::Buffer(_)) = (op.write.base, place.base) else { return false };
        let Some(cells) = self.cells(op.write.kind).get_mut(place.start..place.start + op.write.len) else {
            return false;
        };
        let mut set = |at: usize| cells[at] = Some((buffer, op.write.start + at));
        match &op.kernel {
            Kernel::Concat(walks) => walks.iter().for_each(|walk| positions(walk, &mut set)),
            _ => (0..op.write.len).for_each(set),
        }
        true
    }
}

/// Runs the plan's steps over the names of elements. Returns true if each step reads and writes the elements of its
/// step in the flow, in the same order, and no operands overlap.
pub(super) fn is_right(flow: &Flow, plan: &Plan) -> bool {
    let mut memory = Memory(plan.areas.map(|len| vec![None; len]));
    let mut next = 0;
    for block in &plan.blocks {
        for iteration in 0..block.count {
            for step in &block.steps {
                let op = &flow.ops[next];
                let moved = |place: &Place| {
                    let start =
                        place.span.start.wrapping_add_signed(place.stride.wrapping_mul(iteration.cast_signed()));
                    Span { start, ..place.span }
                };
                let (reads, write): (Vec<Span>, Span) = (step.reads.iter().map(moved).collect(), moved(&step.write));
                let is_read = op.reads.len() == reads.len()
                    && op.reads.iter().zip(&reads).all(|(want, place)| memory.has(want, place));
                let is_same = flow.ops[step.op].kernel == op.kernel && are_apart(&reads, &write);
                if !is_read || !is_same || !memory.write(op, &write) {
                    return false;
                }
                next += 1;
            }
        }
    }
    let are_there = flow.outputs.iter().zip(&plan.outputs).all(|(want, place)| memory.has(want, place));
    next == flow.ops.len() && are_there
}

/// Returns true if operands in the memory of the result are the same or share no element.
fn are_apart(reads: &[Span], write: &Span) -> bool {
    let spans: Vec<&Span> = reads.iter().chain([write]).collect();
    let is_beside = |span: &&&Span| matches!(span.base, Base::Buffer(_)) && span.kind == write.kind;
    let is_apart = |a: &Span, b: &Span| {
        (a.start, a.len) == (b.start, b.len) || a.start + a.len <= b.start || b.start + b.len <= a.start
    };
    let spans: Vec<&&Span> = spans.iter().filter(is_beside).collect();
    spans.iter().enumerate().all(|(at, a)| spans[..at].iter().all(|b| is_apart(a, b)))
}
