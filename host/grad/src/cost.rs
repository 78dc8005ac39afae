//! Cost of an emitted graph: multiply-adds and memory, computed from its nodes and their shapes.
//!
//! Memory is the maximum over tensors alive at once when the nodes run in order. A tensor lives from the node that
//! writes it to the last node that reads it. Inputs and outputs always live, and a `Reshape` or similar operator shares
//! its input's memory. Other memory of a runtime (packed weights, alignment, scratch of its kernels) is not included.

use super::emit::{Known, Var};
use damper_onnx::attr_int;
use damper_onnx::graph::DType;
use damper_onnx::pb::NodeProto;
use std::collections::HashMap;
use std::num::NonZeroUsize;

/// Computed cost of a gradient graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Multiply-adds per sample in convolutions and matrix products, forward and backward.
    pub multiply_adds: u64,
    /// Bytes per row of a batch.
    pub sample_bytes: u64,
    /// Bytes independent of the number of rows: parameters, constants, and values computed only from them.
    pub fixed_bytes: u64,
}

/// Maximum useful number of rows in a batch. With more rows, the tensors exceed the processor's caches.
const MOST_ROWS: u64 = 16;

impl Cost {
    /// Bytes for a batch of `rows`.
    #[must_use]
    pub fn bytes(&self, rows: usize) -> u64 {
        self.sample_bytes.saturating_mul(rows as u64).saturating_add(self.fixed_bytes)
    }

    /// Rows of the physical batch for `memory` bytes, up to the useful maximum. `None` if one row does not fit.
    #[must_use]
    pub fn rows(&self, memory: u64) -> Option<NonZeroUsize> {
        let free = memory.checked_sub(self.fixed_bytes)?;
        let rows = free.checked_div(self.sample_bytes).unwrap_or(MOST_ROWS).min(MOST_ROWS);
        NonZeroUsize::new(rows as usize)
    }
}

/// Cost of `nodes`, which run in this order. `kept` are the names of inputs, initializers and outputs.
pub fn count(nodes: &[NodeProto], known: &Known, kept: &[&str]) -> Cost {
    let mut buffer: HashMap<&str, &str> = HashMap::new();
    for node in nodes.iter().filter(|node| shares_memory(&node.op_type)) {
        if let (Some(from), Some(to)) = (node.input.first(), node.output.first()) {
            let root = buffer.get(from.as_str()).copied().unwrap_or(from);
            buffer.insert(to, root);
        }
    }
    let root = |name: &'_ str| -> String { buffer.get(name).copied().unwrap_or(name).to_owned() };
    let mut last: HashMap<String, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in node.input.iter().chain(&node.output).filter(|name| !name.is_empty()) {
            last.insert(root(name), at);
        }
    }
    let mut alive = Alive::default();
    for name in kept {
        let name = root(name);
        if last.insert(name.clone(), usize::MAX) != Some(usize::MAX) {
            alive.add(known.get(name.as_str()));
        }
    }
    let mut most = alive;
    let mut multiply_adds = 0u64;
    for (at, node) in nodes.iter().enumerate() {
        multiply_adds = multiply_adds.saturating_add(products(node, known));
        for name in node.output.iter().filter(|name| !buffer.contains_key(name.as_str())) {
            if last.get(name).is_some_and(|last| *last != usize::MAX) {
                alive.add(known.get(name.as_str()));
            }
        }
        most = most.max(alive);
        let mut read: Vec<String> = node.input.iter().chain(&node.output).map(|name| root(name)).collect();
        read.sort_unstable();
        read.dedup();
        for name in read.iter().filter(|name| last.get(*name) == Some(&at)) {
            alive.remove(known.get(name.as_str()));
        }
    }
    Cost { multiply_adds, sample_bytes: most.sample, fixed_bytes: most.fixed }
}

/// Bytes of live tensors.
#[derive(Clone, Copy, Default)]
struct Alive {
    sample: u64,
    fixed: u64,
}

impl Alive {
    fn part(&mut self, var: &Var) -> &mut u64 {
        if var.batch.is_some() { &mut self.sample } else { &mut self.fixed }
    }

    fn add(&mut self, var: Option<&Var>) {
        if let Some(var) = var {
            *self.part(var) += bytes(var);
        }
    }

    fn remove(&mut self, var: Option<&Var>) {
        if let Some(var) = var {
            let part = self.part(var);
            *part = part.saturating_sub(bytes(var));
        }
    }

    /// Elementwise maximum of both parts.
    fn max(self, other: Self) -> Self {
        Self { sample: self.sample.max(other.sample), fixed: self.fixed.max(other.fixed) }
    }
}

/// Bytes of one sample.
pub fn bytes(var: &Var) -> u64 {
    let each = match var.dtype {
        DType::F64 | DType::I64 => 8,
        DType::Bool => 1,
        _ => 4,
    };
    var.len() as u64 * each
}

/// Returns true if an operator's output is its first input in another shape.
pub fn shares_memory(op: &str) -> bool {
    matches!(op, "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity")
}

/// Multiply-adds of a node for one sample.
fn products(node: &NodeProto, known: &Known) -> u64 {
    let var = |name: Option<&String>| name.and_then(|name| known.get(name.as_str()));
    let (Some(x), Some(y)) = (var(node.input.first()), var(node.output.first())) else { return 0 };
    let (x_len, y_len) = (x.len() as u64, y.len() as u64);
    // Entries of a weight after its first axis, which are the multiplications per element on the side of that axis.
    let weight = || var(node.input.get(1)).map_or(0, |w| w.shape.iter().skip(1).product::<usize>() as u64);
    match node.op_type.as_str() {
        "Conv" => y_len * weight(),
        "ConvTranspose" => x_len * weight(),
        "MatMul" => y_len * x.shape.last().copied().unwrap_or(1) as u64,
        "Gemm" => {
            let transposed = attr_int(&node.attribute, "transA", 0) != 0;
            y_len * x.shape.get(usize::from(!transposed)).copied().unwrap_or(1) as u64
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeriveOptions, Loss, derive};
    use damper_onnx::graph::{Graph, GraphOptions};
    use damper_onnx::load;
    use std::path::Path;

    fn cost(file: &str) -> Cost {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models").join(file);
        let graph = Graph::from_model(&load(&path).unwrap(), &GraphOptions::default()).unwrap();
        derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy)).unwrap().cost
    }

    // The products of a perceptron are those counted by hand.
    #[test]
    fn perceptron_cost_matches_hand_count() {
        // Forward 64·32 + 32·10, back to the hidden layer 10·32. Sums over the classes are products with all-one
        // vectors. The outer products of the weights' gradients are not sums.
        let cost = cost("digits-mlp.onnx");
        let layers = 64 * 32 + 2 * 32 * 10;
        assert!((layers..layers + 100).contains(&cost.multiply_adds), "{cost:?}");
    }

    // The memory per sample includes its gradient, and the fixed part includes the parameters.
    #[test]
    fn sample_memory_holds_gradient() {
        for (file, parameters) in [("digits-mlp.onnx", 2410), ("mnist-cnn.onnx", 26_010)] {
            let cost = cost(file);
            assert!(cost.sample_bytes >= 4 * parameters && cost.sample_bytes < 60 * parameters, "{cost:?}");
            assert!(cost.fixed_bytes >= 4 * parameters && cost.fixed_bytes < 40 * parameters, "{cost:?}");
        }
    }

    // Rows fill the memory, up to the useful maximum.
    #[test]
    fn rows_fill_memory_up_to_useful_limit() {
        let cost = Cost { multiply_adds: 0, sample_bytes: 100, fixed_bytes: 50 };
        let rows = |memory| cost.rows(memory).map(NonZeroUsize::get);
        assert_eq!([rows(0), rows(149), rows(150), rows(349), rows(1 << 40)], [None, None, Some(1), Some(2), Some(16)]);
        assert!(cost.bytes(2) <= 349 && cost.bytes(3) > 349);
    }
}
