//! Weights of recurrent layers. PyTorch draws all parameters of an LSTM, GRU or RNN within ±1/√hidden, including
//! biases.
//!
//! A layer is one operator, or unrolled. If unrolled, a product with the state's weight leads, some nodes later, to a
//! product with the same weight. The other product of the cell is added to it, perhaps after both are split into gates.

use super::spec::{Distribution, Fans, Initialiser};
use damper_core::numerics::function::sqrt_f64;
use damper_onnx::attr_int;
use damper_onnx::pb::NodeProto;
use std::collections::HashSet;

/// Operators between a product and the sum of a cell's gates.
const BETWEEN: &[&str] =
    &["Add", "Split", "Slice", "Gather", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "Transpose"];

/// View of the graph for the search for recurrent cells.
pub(super) trait Cells {
    /// Node by index.
    fn node(&self, index: usize) -> &NodeProto;
    /// Node that computes a tensor.
    fn producer_of(&self, name: &str) -> Option<usize>;
    /// Nodes that read an output of node `index`.
    fn readers_of(&self, index: usize) -> Vec<usize>;
    /// Weight of product `index`, as the name of its initializer, and its fans.
    fn product(&self, index: usize) -> Option<(&str, Fans)>;
    /// Products with the weight `name`.
    fn products_with(&self, name: &str) -> Vec<usize>;
}

/// Uniform distribution U(±1/√hidden).
pub(super) fn initialiser(hidden: usize) -> Initialiser {
    let bound = 1.0 / sqrt_f64(hidden as f64);
    Initialiser::Plain(Distribution::Uniform { low: -bound, high: bound })
}

/// Hidden size of the operator `node`, if its input `slot` is a weight or the biases.
pub(super) fn hidden_of_operator(node: &NodeProto, slot: usize) -> Option<usize> {
    let is_weight = matches!(node.op_type.as_str(), "LSTM" | "GRU" | "RNN") && (1..=3).contains(&slot);
    usize::try_from(attr_int(&node.attribute, "hidden_size", 0)).ok().filter(|hidden| is_weight && *hidden > 0)
}

/// Hidden size of the unrolled cell to which the product or sum `node` belongs.
pub(super) fn hidden_of_cell(layers: &dyn Cells, node: usize) -> Option<usize> {
    if let Some(hidden) = hidden_of_state(layers, node).filter(|_| reaches_gate(layers, node)) {
        return Some(hidden);
    }
    let mut seen = HashSet::from([node]);
    let mut open = vec![node];
    while let Some(at) = open.pop() {
        for reader in layers.readers_of(at) {
            let op = layers.node(reader).op_type.as_str();
            if !BETWEEN.contains(&op) || !seen.insert(reader) {
                continue;
            }
            let others = layers.node(reader).input.iter().filter_map(|name| layers.producer_of(name));
            let state = (op == "Add")
                .then(|| others.filter(|other| !seen.contains(other)).find_map(|other| state_before(layers, other)));
            // A sum that reaches no gate is a residual connection of layers with shared weights.
            if let Some(hidden) = state.flatten().filter(|_| reaches_gate(layers, reader)) {
                return Some(hidden);
            }
            open.push(reader);
        }
    }
    None
}

/// Returns true if the sum `node` is the argument of a gate.
fn reaches_gate(layers: &dyn Cells, node: usize) -> bool {
    let (mut seen, mut open) = (HashSet::from([node]), vec![node]);
    while let Some(at) = open.pop() {
        for reader in layers.readers_of(at) {
            let op = layers.node(reader).op_type.as_str();
            if matches!(op, "Sigmoid" | "Tanh" | "Relu") {
                return true;
            }
            if BETWEEN.contains(&op) && seen.insert(reader) {
                open.push(reader);
            }
        }
    }
    false
}

/// Hidden size of the product with a state's weight that `node` is, or from which its value comes.
fn state_before(layers: &dyn Cells, node: usize) -> Option<usize> {
    let (mut seen, mut open) = (HashSet::from([node]), vec![node]);
    while let Some(at) = open.pop() {
        if let Some(hidden) = hidden_of_state(layers, at) {
            return Some(hidden);
        }
        // In a GRU, the reset gate multiplies the product.
        let op = layers.node(at).op_type.as_str();
        if BETWEEN.contains(&op) || op == "Mul" {
            let before = layers.node(at).input.iter().filter_map(|name| layers.producer_of(name));
            open.extend(before.filter(|before| seen.insert(*before)));
        }
    }
    None
}

/// Fan-in of the weight of product `node`, if another product with that weight depends on it, or the reverse.
fn hidden_of_state(layers: &dyn Cells, node: usize) -> Option<usize> {
    let (weight, fans) = layers.product(node)?;
    let products = layers.products_with(weight);
    if products.len() < 2 {
        return None;
    }
    let others: HashSet<usize> = products.into_iter().filter(|other| *other != node).collect();
    let reaches = |next: &dyn Fn(usize) -> Vec<usize>| {
        let (mut seen, mut open) = (HashSet::from([node]), vec![node]);
        while let Some(at) = open.pop() {
            for one in next(at) {
                if others.contains(&one) {
                    return true;
                }
                if seen.insert(one) {
                    open.push(one);
                }
            }
        }
        false
    };
    let after = |at: usize| layers.readers_of(at);
    let before = |at: usize| layers.node(at).input.iter().filter_map(|name| layers.producer_of(name)).collect();
    (reaches(&after) || reaches(&before)).then_some(fans.fan_in)
}
