//! Sums of padded blocks: the gradient of a value of which steps read slices.
//!
//! `Pad` and `Add` write and read the whole sum for each block. A buffer of zeros to which each block is added in place
//! has the same bits, if at least one of the terms has its padding at each element. Without the sign of zeros this is
//! clear: the sums have the same order. A sum of floats is `-0` only if all of its terms are. With a padding of `+0`
//! among them it never is, and the zeros at the beginning do not change that.

use super::flow::{Base, Flow, Span, is_dense};
use damper_nn::Walk;
use damper_nn::elementwise::Binary;
use damper_runtime::portable::{Data, Kernel, Program};
use std::collections::HashMap;

/// Sum of padded blocks. Buffers have the numbers of the steps that write them.
#[derive(Debug)]
pub(super) struct Chain {
    /// Steps that pad, in the order of the sum.
    pub(super) pads: Vec<usize>,
    /// Steps that add. The first adds two blocks, and every other step adds a single block.
    pub(super) adds: Vec<usize>,
}

impl Chain {
    /// Returns the buffer that has the sum.
    pub(super) fn sum(&self) -> usize {
        self.adds.last().copied().unwrap_or_default()
    }
}

/// Finds the chains of `flow`, whose steps each write a buffer with their own number.
pub(super) fn chains(flow: &Flow, program: &Program) -> Vec<Chain> {
    let mut uses = vec![0; flow.buffers.len()];
    let reads = flow.ops.iter().flat_map(|op| &op.reads).chain(&flow.outputs);
    reads.filter_map(Span::buffer).for_each(|buffer| uses[buffer] += 1);
    let is_zero = |span: &Span| match span.base {
        Base::Constant(at) => {
            matches!(&program.constants[at].1, Data::F32(data) if data[..] == [0.0] && data[0].is_sign_positive())
        }
        _ => false,
    };
    let is_term = |buffer: usize| {
        let op = &flow.ops[buffer];
        uses[buffer] == 1 && matches!(op.kernel, Kernel::Pad(_)) && is_zero(&op.reads[1])
    };
    let mut chains: Vec<Chain> = vec![];
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for (at, op) in flow.ops.iter().enumerate() {
        let Kernel::Binary(Binary::Add, walk) = &op.kernel else { continue };
        let Some((left, right)) = op.reads[0].buffer().zip(op.reads[1].buffer()) else { continue };
        if left == right || !(is_dense(walk, 0) && is_dense(walk, 1)) {
            continue;
        }
        let extended = [(left, right), (right, left)].into_iter().find_map(|(sum, block)| {
            let chain = ends.get(&sum).filter(|_| uses[sum] == 1 && is_term(block))?;
            Some((*chain, block))
        });
        match extended {
            Some((chain, block)) => {
                chains[chain].pads.push(block);
                chains[chain].adds.push(at);
                ends.insert(at, chain);
            }
            None if is_term(left) && is_term(right) => {
                ends.insert(at, chains.len());
                chains.push(Chain { pads: vec![left, right], adds: vec![at] });
            }
            None => {}
        }
    }
    chains.retain(|chain| has_padding_everywhere(flow, chain));
    chains
}

/// Returns true if each element of the sum is in the padding of at least one term.
fn has_padding_everywhere(flow: &Flow, chain: &Chain) -> bool {
    let mut blocks = vec![0; flow.buffers[chain.sum()].1];
    for pad in &chain.pads {
        let Kernel::Pad(walk) = &flow.ops[*pad].kernel else { return false };
        positions(walk, |at| blocks[at] += 1);
    }
    blocks.iter().all(|count| *count < chain.pads.len())
}

/// Calls `each` with the elements that `walk` visits.
pub(super) fn positions(walk: &Walk<1>, mut each: impl FnMut(usize)) {
    let [stride] = walk.row_strides();
    walk.each_row(|_, [start]| {
        (0..walk.row() as isize).for_each(|column| each(start.wrapping_add_signed(column * stride)));
    });
}
