//! Orders nodes so that onnxruntime keeps tensors in memory no longer than needed.
//!
//! onnxruntime first runs the dependencies of the last node without readers, then those of the node before it, and so
//! on. A gradient graph has such a node for each parameter. In the order of the reverse sweep, the last of them needs
//! nearly the whole graph. The tensors that the others read then stay in memory to the end.

use damper_onnx::pb::{ModelProto, NodeProto};
use std::collections::HashSet;
use std::mem::take;

/// Moves the nodes without readers to the end, in reverse order.
pub(super) fn release_early(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    let read: HashSet<String> = graph.node.iter().flat_map(|node| node.input.iter().cloned()).collect();
    let is_read = |node: &NodeProto| node.output.iter().any(|name| read.contains(name));
    let (mut nodes, leaves): (Vec<_>, Vec<_>) = take(&mut graph.node).into_iter().partition(is_read);
    nodes.extend(leaves.into_iter().rev());
    graph.node = nodes;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{batched, model, node};
    use super::*;

    #[test]
    fn nodes_without_a_reader_are_last_in_reverse() {
        let lines = ["a = Neg(x)", "left = Abs(a)", "b = Neg(a)", "right = Abs(b)", "c = Neg(b)"];
        let outputs = ["left", "right", "c"].map(|name| batched(name, &[2])).to_vec();
        let (mut of, _) = model(lines.map(node).to_vec(), &[], vec![batched("x", &[2])], outputs);
        release_early(&mut of);
        let made: Vec<String> = of.graph.unwrap().node.into_iter().map(|node| node.output[0].clone()).collect();
        assert_eq!(made, ["a", "b", "c", "right", "left"]);
    }
}
