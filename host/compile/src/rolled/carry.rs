//! Values that only the next iteration reads.
//!
//! If the next iteration reads the value after it has begun to write its own, the two need a place each, and so would
//! those of all iterations. A copy at the end of each iteration makes two places enough.

use super::family::Families;
use super::flow::{Base, Flow, Op, Span};
use super::plan::{are_apart, lives};
use super::repeat::Repeat;
use damper_nn::Walk;
use damper_runtime::portable::Kernel;
use std::collections::HashMap;

/// Returns `flow` with these copies. `None` if it needs none.
pub(super) fn carry(flow: &Flow, repeats: &[Repeat], families: &Families) -> Option<Flow> {
    let lives = lives(flow);
    let mut written_in: HashMap<usize, Vec<usize>> = HashMap::new();
    flow.ops.iter().enumerate().for_each(|(at, op)| {
        if let Base::Buffer(buffer) = op.write.base {
            written_in.entry(buffer).or_default().push(at);
        }
    });
    // Buffers to copy, by the step before which the copy is.
    let mut copies: HashMap<usize, Vec<usize>> = HashMap::new();
    for members in families.members().iter().filter(|members| !are_apart(members, &lives)) {
        for repeat in repeats {
            let end_of = |iteration: usize| repeat.start + (iteration + 1) * repeat.period;
            let inside = |(_, buffer): &(isize, usize)| {
                let iteration = written_in.get(buffer)?.first()?.checked_sub(repeat.start)? / repeat.period;
                (iteration < repeat.count).then_some((iteration, *buffer))
            };
            let mut passed: Vec<(usize, usize)> = members.iter().filter_map(inside).collect();
            passed.sort_unstable();
            let is_one_each = passed.len() == repeat.count && passed.iter().enumerate().all(|(at, (of, _))| at == *of);
            let is_passed = |(iteration, buffer): &(usize, usize)| {
                let (first, last) = lives[*buffer].unwrap_or_default();
                let ends = iteration + 1 == repeat.count || last < end_of(iteration + 1);
                let is_written_before = written_in[buffer].iter().all(|at| *at < end_of(*iteration));
                first >= repeat.start && last >= end_of(*iteration) && ends && is_written_before
            };
            if is_one_each && passed.iter().all(is_passed) {
                passed
                    .iter()
                    .for_each(|(iteration, buffer)| copies.entry(end_of(*iteration)).or_default().push(*buffer));
            }
        }
    }
    (!copies.is_empty()).then(|| copied(flow, &copies))
}

fn copied(flow: &Flow, copies: &HashMap<usize, Vec<usize>>) -> Flow {
    let (mut ops, mut buffers) = (vec![], flow.buffers.clone());
    let mut names: HashMap<usize, usize> = HashMap::new();
    let renamed = |span: &Span, names: &HashMap<usize, usize>| {
        let base = span.buffer().and_then(|buffer| names.get(&buffer)).map_or(span.base, |copy| Base::Buffer(*copy));
        Span { base, ..*span }
    };
    for at in 0..=flow.ops.len() {
        for buffer in copies.get(&at).into_iter().flatten() {
            let (kind, len) = flow.buffers[*buffer];
            let read = Span { base: Base::Buffer(*buffer), kind, start: 0, len };
            let walk = Walk::new(&[len], [&[1]], [0]).expect("a buffer has a length");
            let write = Span { base: Base::Buffer(buffers.len()), ..read };
            ops.push(Op { node: "to the next step".into(), kernel: Kernel::Copy(walk), reads: vec![read], write });
            names.insert(*buffer, buffers.len());
            buffers.push((kind, len));
        }
        if let Some(op) = flow.ops.get(at) {
            let reads = op.reads.iter().map(|read| renamed(read, &names)).collect();
            ops.push(Op { reads, ..op.clone() });
        }
    }
    let outputs = flow.outputs.iter().map(|output| renamed(output, &names)).collect();
    Flow { ops, buffers, outputs }
}
