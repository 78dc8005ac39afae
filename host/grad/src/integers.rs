//! Integers in constant inputs of a node.

use damper_onnx::graph::{Graph, Node, Origin, Tensor, TensorData};
use damper_onnx::{attr_int, attr_ints};

/// Integers of an input, if it is constant.
pub fn known_ints<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a [i64]> {
    match &graph.values[node.inputs.get(index).copied().flatten()?.0].origin {
        Origin::Constant(Tensor { data: TensorData::I64(values), .. }) => Some(values),
        _ => None,
    }
}

/// Axes of a reduction on a tensor of `rank` axes. `None` if they are not constant.
pub fn reduced_axes(graph: &Graph, node: &Node, rank: usize) -> Option<Vec<usize>> {
    let listed = match (attr_ints(&node.attributes, "axes"), node.inputs.get(1).copied().flatten()) {
        (Some(axes), _) => axes,
        (None, None) => &[],
        (None, Some(_)) => known_ints(graph, node, 1)?,
    };
    if listed.is_empty() && attr_int(&node.attributes, "noop_with_empty_axes", 0) == 0 {
        return Some((0..rank).collect());
    }
    Some(listed.iter().map(|a| a.rem_euclid(rank as i64) as usize).collect())
}
