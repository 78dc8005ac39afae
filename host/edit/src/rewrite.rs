//! Common code of model rewrites: readers of a value, initializers, group normalisation.

use damper_onnx::pb::{GraphProto, NodeProto, TensorProto};
use damper_onnx::{DType, Extent, make_attr_float, make_node, make_tensor_f32, make_tensor_i64, make_value_info};
use std::collections::HashSet;

/// Maximum number of groups of a GroupNorm, as in Opacus.
const MOST_GROUPS: usize = 32;

/// Returns true if `value` depends on an input of the model.
pub(crate) fn depends_on_data(graph: &GraphProto, value: &str) -> bool {
    let stored: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let inputs = graph.input.iter().map(|input| input.name.as_str()).filter(|name| !stored.contains(name));
    let mut data: HashSet<&str> = inputs.collect();
    for node in &graph.node {
        if node.input.iter().any(|name| data.contains(name.as_str())) {
            data.extend(node.output.iter().map(String::as_str));
        }
    }
    data.contains(value)
}

/// Largest divisor of `channels` up to 32 with at least two channels per group. With a single channel, normalised
/// vectors would be zero.
pub(crate) fn usual_groups(channels: usize) -> usize {
    (1..=MOST_GROUPS.min(channels / 2)).rev().find(|groups| channels.is_multiple_of(*groups)).unwrap_or(1)
}

/// Adds nodes that normalise each group of channels of `x` to mean 0 and variance 1. They have the form in which
/// PyTorch's exporter writes a GroupNorm. Returns their result, of shape `[N, groups, ...]`. Their names begin with
/// `owner`.
pub(crate) fn group_norm(
    graph: &mut GraphProto,
    owner: &str,
    x: &str,
    groups: usize,
    epsilon: f32,
) -> (Vec<NodeProto>, String) {
    let own = |part: &str| format!("{owner}/GroupNorm/{part}");
    let [shape, ones, zeros, grouped, normed] = ["groups", "ones", "zeros", "grouped", "normed"].map(own);
    graph.initializer.push(make_tensor_i64(&shape, &[3], &[0, groups as i64, -1]));
    graph.initializer.push(make_tensor_f32(&ones, &[groups], &vec![1.0; groups]));
    graph.initializer.push(make_tensor_f32(&zeros, &[groups], &vec![0.0; groups]));
    let epsilon = vec![make_attr_float("epsilon", epsilon)];
    let nodes = vec![
        make_node("Reshape", &own("Reshape"), &[x, &shape], &[&grouped], vec![]),
        make_node("InstanceNormalization", &own("Normalize"), &[&grouped, &ones, &zeros], &[&normed], epsilon),
    ];
    (nodes, normed)
}

/// Readers of `name`: (node, slot).
pub(crate) fn readers(graph: &GraphProto, name: &str) -> Vec<(usize, usize)> {
    let of_node = |(at, node): (usize, &NodeProto)| {
        let slots = node.input.iter().enumerate().filter(|(_, input)| *input == name);
        slots.map(|(slot, _)| (at, slot)).collect::<Vec<_>>()
    };
    graph.node.iter().enumerate().flat_map(of_node).collect()
}

/// Replaces the tensor with the same name, or adds it.
pub(crate) fn set(graph: &mut GraphProto, tensor: TensorProto) {
    match graph.initializer.iter_mut().find(|old| old.name == tensor.name) {
        Some(old) => *old = tensor,
        None => graph.initializer.push(tensor),
    }
}

/// Removes those initializers of `names` that nothing reads any more.
pub(crate) fn remove_unread(graph: &mut GraphProto, names: &HashSet<String>) {
    let read: HashSet<String> = graph.node.iter().flat_map(|node| node.input.iter().cloned()).collect();
    let stays = |name: &String| !names.contains(name) || read.contains(name);
    graph.initializer.retain(|tensor| stays(&tensor.name));
    graph.input.retain(|input| stays(&input.name));
    graph.value_info.retain(|info| stays(&info.name));
}

/// Adds the initializers that are not in `before` to the inputs, as in models before IR version 4.
pub(crate) fn list_new(graph: &mut GraphProto, before: &HashSet<String>) {
    for tensor in graph.initializer.iter().filter(|tensor| !before.contains(&tensor.name)) {
        let Ok(dtype) = DType::from_onnx(tensor.data_type) else { continue };
        let shape: Vec<Extent> = tensor.dims.iter().map(|&extent| Extent::Fixed(extent as usize)).collect();
        graph.input.push(make_value_info(&tensor.name, dtype, &shape));
    }
}
