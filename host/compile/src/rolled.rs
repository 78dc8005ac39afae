//! Loops over time. A recurrent layer is unrolled in the gradient graph, and a step of time is the same list of kernels
//! each time. This module finds these lists in a program and makes loops of them.
//!
//! ```text
//! Program ─ flow ─► steps over buffers ─ simplify ─► fewer copies ─ repeat ─► loops ─ plan ─► places in memory
//! ```
//!
//! The steps and their order are those of the unrolled program, so the bits are too. A value that only its own
//! iteration reads has the same place in all iterations. Each iteration's value is stored if another loop reads it.
//! `check` runs each plan over the names of its elements. A program without loops, or with a plan that fails, stays
//! unrolled.

mod carry;
mod chain;
mod check;
mod family;
mod flow;
mod plan;
mod repeat;
mod simplify;

use crate::schedule::{Block, Constants, Operand, Schedule, Source, Step, reads_quantized};
use damper_runtime::portable::Program;
use flow::{Base, Flow};
use plan::{Place, Plan, Planned};

/// Schedules `program` as loops and adds its constants to `constants`. `None` if it has no loop.
pub(crate) fn schedule(program: &Program, constants: &mut Constants) -> Option<Schedule> {
    let mut flow = simplify::simplify(&Flow::new(program)?, program);
    let (mut repeats, mut families) = repeat::repeats(&flow);
    if repeats.is_empty() {
        return None;
    }
    if let Some(carried) = carry::carry(&flow, &repeats, &families) {
        flow = carried;
        (repeats, families) = repeat::repeats(&flow);
    }
    let plan = Plan::new(&flow, &repeats, &families);
    if !check::is_right(&flow, &plan) {
        return None;
    }
    let mut operand = |place: &Place, may_be_quantized: bool| {
        let Place { span, stride } = *place;
        let of = |source, start| Operand { source, kind: span.kind, start, len: span.len, stride };
        match span.base {
            Base::Constant(at) => {
                let (constant, data) = &program.constants[at];
                let is_whole = may_be_quantized && stride == 0 && (span.start, span.len) == (0, constant.len);
                match is_whole.then(|| constants.quantize(data)).flatten() {
                    Some(number) => of(Source::Quantized(number), 0),
                    None => of(Source::Constant, constants.intern(data) + span.start),
                }
            }
            Base::Input(at) => of(Source::Input(at), span.start),
            Base::Buffer(_) => of(Source::Memory, span.start),
        }
    };
    let outputs = plan.outputs.iter().map(|span| operand(&Place { span: *span, stride: 0 }, false)).collect();
    let mut step = |planned: &Planned| {
        let op = &flow.ops[planned.op];
        let reads = planned.reads.iter().enumerate();
        Step {
            node: op.node.clone(),
            kernel: op.kernel.clone(),
            reads: reads.map(|(slot, place)| operand(place, reads_quantized(&op.kernel, slot))).collect(),
            write: operand(&planned.write, false),
        }
    };
    let blocks = plan.blocks.iter();
    let blocks = blocks.map(|block| Block { count: block.count, steps: block.steps.iter().map(&mut step).collect() });
    Some(Schedule { blocks: blocks.collect(), outputs, areas: plan.areas })
}
