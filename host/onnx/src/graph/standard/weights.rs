//! Converts weights that an exporter wrote as `Constant` nodes, such as paddle2onnx and spox, to initializers of the
//! same names.

use crate::pb::{GraphProto, NodeProto, TensorProto};
use crate::scopes::{DEEPEST, inner, inner_mut};
use crate::{DType, attr_tensor, make_value_info};
use std::collections::{HashMap, HashSet};

/// Converts the `Constant` nodes that layers read as weights to initializers, in `graph` and its subgraphs. If the
/// model has no initializer of several floats, this includes constants of several floats in additions, subtractions,
/// multiplications and divisions. Set `is_listed` if initializers are also inputs, as before IR version 4.
pub fn hoist_weights(graph: &mut GraphProto, is_listed: bool) {
    let all = !has_stored_weights(graph, 0);
    hoist(graph, is_listed, all, 0);
}

/// Returns true if `op` reads a weight at `slot`.
fn is_weight(op: &str, slot: usize) -> bool {
    match op {
        "Conv" | "ConvTranspose" | "LSTM" | "GRU" | "RNN" => (1..4).contains(&slot),
        "BatchNormalization" => (1..5).contains(&slot),
        "MatMul" | "PRelu" => slot == 1,
        "Gemm" => slot > 0,
        "Gather" => slot == 0,
        _ => op.ends_with("Normalization") && slot > 0,
    }
}

/// Operators between a weight and its layer.
fn passes(op: &str) -> bool {
    matches!(op, "Cast" | "Identity" | "Reshape" | "Squeeze" | "Transpose" | "Unsqueeze")
}

fn is_float(tensor: &TensorProto) -> bool {
    let floats = [1, 10, 11, 16];
    floats.contains(&tensor.data_type) && tensor.dims.iter().any(|&extent| extent > 1)
}

/// Returns true if an initializer has several floats, in `graph` or a subgraph.
fn has_stored_weights(graph: &GraphProto, depth: usize) -> bool {
    let within = |node: &NodeProto| inner(node).any(|inner| has_stored_weights(inner, depth + 1));
    graph.initializer.iter().any(is_float) || depth < DEEPEST && graph.node.iter().any(within)
}

fn hoist(graph: &mut GraphProto, is_listed: bool, all: bool, depth: usize) {
    let weights = read_as_weights(graph, all);
    let mut tensors = Vec::new();
    graph.node.retain_mut(|node| {
        if node.op_type != "Constant" || !matches!(node.domain.as_str(), "" | "ai.onnx") {
            return true;
        }
        let Some(output) = node.output.first().filter(|name| !name.starts_with("dp.")).cloned() else { return true };
        let is_hoisted = |tensor: &TensorProto| is_float(tensor) && weights.contains(&output);
        if !attr_tensor(&node.attribute, "value").is_some_and(is_hoisted) {
            return true;
        }
        let value = node.attribute.iter_mut().find(|attribute| attribute.name == "value");
        tensors.extend(value.and_then(|attribute| attribute.t.take()).map(|t| TensorProto { name: output, ..t }));
        false
    });
    for tensor in tensors {
        if is_listed && depth == 0 {
            let shape: Vec<_> = tensor.dims.iter().map(|&d| crate::Extent::Fixed(d.max(0) as usize)).collect();
            if let Ok(dtype) = DType::from_onnx(tensor.data_type) {
                graph.input.push(make_value_info(&tensor.name, dtype, &shape));
            }
        }
        graph.initializer.push(tensor);
    }
    if depth < DEEPEST {
        for node in &mut graph.node {
            inner_mut(node).for_each(|inner| hoist(inner, is_listed, all, depth + 1));
        }
    }
}

/// Names of constants that a layer reads as a weight, in `graph` or a subgraph. With `all`, also possible biases and
/// scales.
fn read_as_weights(graph: &GraphProto, all: bool) -> HashSet<String> {
    let mut by_output: HashMap<&str, &NodeProto> = HashMap::new();
    for node in &graph.node {
        by_output.extend(node.output.iter().map(|name| (name.as_str(), node)));
    }
    let mut found = HashSet::new();
    let mut open = Vec::new();
    layer_reads(graph, all, 0, &mut open);
    let mut seen: HashSet<&str> = HashSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        match by_output.get(name) {
            Some(node) if node.op_type == "Constant" => {
                found.insert(name.to_owned());
            }
            Some(node) if passes(&node.op_type) => open.extend(node.input.first().map(String::as_str)),
            _ => {}
        }
    }
    found
}

fn layer_reads<'a>(graph: &'a GraphProto, all: bool, depth: usize, found: &mut Vec<&'a str>) {
    for node in &graph.node {
        let is_bias = all && matches!(node.op_type.as_str(), "Add" | "Sub" | "Mul" | "Div");
        let slots = node.input.iter().enumerate();
        // If weights are stored, exporters generated the constants of norms and tables.
        let is_made_up = !all && (node.op_type.ends_with("Normalization") || node.op_type == "Gather");
        let slots = slots.filter(|(slot, _)| is_bias || is_weight(&node.op_type, *slot) && !is_made_up);
        // If other weights are stored, TorchScript writes no weight as a constant.
        let slots = slots.filter(|(_, name)| all || !name.starts_with('/'));
        found.extend(slots.map(|(_, name)| name.as_str()));
        if depth < DEEPEST {
            inner(node).for_each(|inner| layer_reads(inner, all, depth + 1, found));
        }
    }
}
