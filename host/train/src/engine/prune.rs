//! Pruning of a model to some of its outputs, so that evaluation does not compute gradients.

use damper_onnx::lowering;
use damper_onnx::pb::ModelProto;
use std::collections::HashSet;

/// Returns `model` with only these outputs, and only the nodes and initializers that they need. All inputs stay.
pub(crate) fn keep_outputs(model: &ModelProto, outputs: &[&str]) -> ModelProto {
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        graph.output.retain(|output| outputs.contains(&output.name.as_str()));
        let mut needed: HashSet<String> = outputs.iter().map(|name| (*name).to_owned()).collect();
        let mut kept = Vec::new();
        // Nodes are in topological order. So one backward pass visits every reader before the node that it reads.
        for node in graph.node.drain(..).rev() {
            if node.output.iter().any(|output| needed.contains(output)) {
                let read = node.input.iter().chain(lowering(&node).iter().flat_map(|node| &node.input));
                needed.extend(read.cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        graph.node = kept;
        graph.initializer.retain(|initializer| needed.contains(&initializer.name));
        graph.value_info.retain(|value| needed.contains(&value.name));
    }
    model
}
