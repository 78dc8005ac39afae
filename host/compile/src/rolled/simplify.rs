//! Fewer copies between buffers, with the same bits.
//!
//! Slices in one piece are read without a copy. Parts of a concatenation are written in its buffer, and blocks of a sum
//! are added in the buffer of the sum. A sum, an activation or a gate overwrites its operand if no later step reads it.

use super::chain::{Chain, chains};
use super::flow::{Base, Flow, Op, Span, dense, from_zero, is_dense};
use damper_nn::Walk;
use damper_nn::elementwise::{Binary, Unary};
use damper_runtime::portable::{Kernel, Program};
use std::collections::HashMap;

/// Buffers that are in other buffers or inputs.
struct Homes(Vec<Option<(Base, usize)>>);

impl Homes {
    /// Returns the final place of a buffer's elements.
    fn of(&self, span: Span) -> Span {
        let mut span = span;
        while let Base::Buffer(buffer) = span.base {
            let Some((base, start)) = self.0[buffer] else { break };
            span = Span { base, start: span.start + start, ..span };
        }
        span
    }

    /// Returns the buffer of a span that is all of it, and is in no other.
    fn whole(&self, span: &Span, flow: &Flow) -> Option<usize> {
        let buffer = span.buffer()?;
        (self.0[buffer].is_none() && span.start == 0 && flow.buffers[buffer].1 == span.len).then_some(buffer)
    }
}

/// Returns `flow`, whose steps each write a buffer with their own number, with fewer copies.
pub(super) fn simplify(flow: &Flow, program: &Program) -> Flow {
    let chains = chains(flow, program);
    let mut homes = Homes(vec![None; flow.buffers.len()]);
    // Steps that start a sum, and steps that add a block to one.
    let mut first: HashMap<usize, &Chain> = HashMap::new();
    let mut added: HashMap<usize, (&Chain, usize)> = HashMap::new();
    let mut padded = vec![false; flow.ops.len()];
    for chain in &chains {
        first.insert(chain.pads[0], chain);
        chain.pads.iter().for_each(|pad| padded[*pad] = true);
        for (add, pad) in chain.adds.iter().zip(&chain.pads[1..]) {
            added.insert(*add, (chain, *pad));
            if *add != chain.sum() {
                homes.0[*add] = Some((Base::Buffer(chain.sum()), 0));
            }
        }
    }
    let mut ops = vec![];
    for (at, op) in flow.ops.iter().enumerate() {
        match (&op.kernel, first.get(&at), added.get(&at)) {
            (_, Some(chain), _) => {
                ops.push(fill(op, sum_of(flow, chain)));
                ops.push(add_block(op, sum_of(flow, chain)));
            }
            (_, _, Some((chain, pad))) => ops.push(add_block(&flow.ops[*pad], sum_of(flow, chain))),
            _ if padded[at] => {}
            (Kernel::Copy(walk), ..) => copy(op, walk, &mut homes, &mut ops),
            (Kernel::Pad(walk), ..) => {
                ops.push(fill(op, op.write));
                ops.push(placed(op, walk, op.reads[0]));
            }
            (Kernel::Concat(walks), ..) => concat(flow, op, walks, &mut homes, &mut ops),
            _ => ops.push(op.clone()),
        }
    }
    overwrite(flow, &mut ops, &mut homes);
    for op in &mut ops {
        op.reads.iter_mut().chain([&mut op.write]).for_each(|span| *span = homes.of(*span));
    }
    let outputs = flow.outputs.iter().map(|output| homes.of(*output)).collect();
    Flow { ops, buffers: flow.buffers.clone(), outputs }
}

fn sum_of(flow: &Flow, chain: &Chain) -> Span {
    flow.ops[chain.sum()].write
}

/// Fills `write` with the padding of `pad`.
fn fill(pad: &Op, write: Span) -> Op {
    let walk = Walk::new(&[write.len], [&[0]], [0]).expect("a buffer has a length");
    Op { node: pad.node.clone(), kernel: Kernel::Copy(walk), reads: vec![pad.reads[1]], write }
}

/// Adds the block of `pad` to `sum`, in place.
fn add_block(pad: &Op, sum: Span) -> Op {
    let Kernel::Pad(walk) = &pad.kernel else { unreachable!("chains are of pads") };
    let (walk, start) = from_zero(walk);
    let write = Span { start, len: walk.needed[0], ..sum };
    let both = Walk {
        extents: walk.extents,
        strides: [walk.strides[0], dense(&walk)],
        starts: [walk.starts[0], 0],
        needed: [walk.needed[0], walk.len],
        len: walk.len,
    };
    Op { node: pad.node.clone(), kernel: Kernel::Binary(Binary::Add, both), reads: vec![write, pad.reads[0]], write }
}

/// Writes `read` at the positions of `walk`.
fn placed(op: &Op, walk: &Walk<1>, read: Span) -> Op {
    let (walk, start) = from_zero(walk);
    let write = Span { start: op.write.start + start, len: walk.needed[0], ..op.write };
    Op { node: op.node.clone(), kernel: Kernel::Concat(vec![walk]), reads: vec![read], write }
}

/// A slice in one piece is a part of its operand. Others are copied.
fn copy(op: &Op, walk: &Walk<1>, homes: &mut Homes, ops: &mut Vec<Op>) {
    let (walk, start) = from_zero(walk);
    let read = Span { start: op.reads[0].start + start, len: walk.needed[0], ..op.reads[0] };
    match (read.base, op.write.base) {
        (Base::Buffer(_) | Base::Input(_), Base::Buffer(buffer)) if is_dense(&walk, 0) => {
            homes.0[buffer] = Some((read.base, read.start));
        }
        _ => ops.push(Op { kernel: Kernel::Copy(walk), reads: vec![read], ..op.clone() }),
    }
}

/// Operands that are buffers of their own are written in their places. Others are copied there.
fn concat(flow: &Flow, op: &Op, walks: &[Walk<1>], homes: &mut Homes, ops: &mut Vec<Op>) {
    let parts: Vec<(&Walk<1>, Span)> =
        walks.iter().zip(op.reads.iter().copied()).filter(|(walk, _)| walk.len > 0).collect();
    let spans: Vec<Span> = parts.iter().map(|(_, read)| homes.of(*read)).collect();
    let starts: Vec<usize> = parts.iter().map(|(walk, _)| from_zero(walk).1).collect();
    let is_in_order = |at: usize| {
        let (span, first) = (spans[at], spans[0]);
        is_dense(parts[at].0, 0) && span.base == first.base && span.start == first.start + starts[at] - starts[0]
    };
    let buffer = op.write.buffer().expect("a step writes a buffer");
    if !matches!(spans[0].base, Base::Constant(_)) && (0..parts.len()).all(is_in_order) {
        homes.0[buffer] = Some((spans[0].base, spans[0].start));
        return;
    }
    for (walk, read) in parts {
        match homes.whole(&read, flow).filter(|_| is_dense(walk, 0)) {
            Some(part) => homes.0[part] = Some((op.write.base, from_zero(walk).1)),
            None => ops.push(placed(op, walk, read)),
        }
    }
}

/// Operands that the kernel can overwrite.
fn overwritten(kernel: &Kernel) -> &'static [usize] {
    match kernel {
        Kernel::Unary(Unary::Relu | Unary::Sigmoid | Unary::Tanh) => &[0],
        Kernel::Binary(Binary::Gate, _) => &[1],
        Kernel::Binary(Binary::Add, _) => &[0, 1],
        _ => &[],
    }
}

/// Lets steps overwrite operands that no later step reads.
fn overwrite(flow: &Flow, ops: &mut [Op], homes: &mut Homes) {
    let mut last = vec![0; flow.buffers.len()];
    for (at, op) in ops.iter().enumerate() {
        op.reads.iter().filter_map(|read| homes.of(*read).buffer()).for_each(|buffer| last[buffer] = at);
    }
    flow.outputs.iter().filter_map(|read| homes.of(*read).buffer()).for_each(|buffer| last[buffer] = usize::MAX);
    for (at, op) in ops.iter_mut().enumerate().filter(|(_, op)| !op.reads.contains(&op.write)) {
        let Some(buffer) = op.write.buffer().filter(|_| op.write.start == 0) else { continue };
        if flow.buffers[buffer].1 != op.write.len {
            continue;
        }
        let found = overwritten(&op.kernel).iter().copied().find(|slot| {
            let Some(over) = homes.whole(&homes.of(op.reads[*slot]), flow) else { return false };
            let is_alone = (0..op.reads.len()).all(|at| at == *slot || homes.of(op.reads[at]).buffer() != Some(over));
            let is_whole = op.reads[*slot].len == op.write.len && op.reads[*slot].kind == op.write.kind;
            let is_read_in_order = match &op.kernel {
                Kernel::Binary(_, walk) => is_dense(walk, *slot),
                _ => true,
            };
            let owner = homes.of(op.write).buffer();
            is_alone && is_whole && is_read_in_order && last[over] == at && owner != Some(over)
        });
        let Some(slot) = found else { continue };
        let (Some(over), Some(owner)) = (homes.of(op.reads[slot]).buffer(), homes.of(op.write).buffer()) else {
            continue;
        };
        homes.0[over] = Some((op.write.base, 0));
        last[owner] = last[owner].max(last[over]);
        if let Kernel::Binary(Binary::Add, walk) = &op.kernel {
            let [sum, other] = [slot, 1 - slot];
            op.kernel = Kernel::Binary(
                Binary::Add,
                Walk {
                    extents: walk.extents,
                    strides: [walk.strides[sum], walk.strides[other]],
                    starts: [walk.starts[sum], walk.starts[other]],
                    needed: [walk.needed[sum], walk.needed[other]],
                    len: walk.len,
                },
            );
            op.reads = vec![op.write, op.reads[other]];
        }
    }
}
