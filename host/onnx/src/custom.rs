//! Custom operators: nodes for which a runtime may have a kernel. Each has a *lowering* to standard operators, stored
//! as a subgraph like a branch of `If`.

use super::pb::attribute_proto::AttributeType;
use super::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use prost::Message as _;
use std::collections::{HashMap, HashSet};

/// Domain of the custom operators.
pub const CUSTOM_DOMAIN: &str = "damper";

/// Name prefix of nodes that recompute results of other nodes. A runtime must run both in the same way. It may not
/// replace either by an operator with other bits.
pub const AGAIN: &str = "dp.again.";

/// Name of the attribute that contains the lowering.
const LOWERING: &str = "lowering";

/// Makes `node` a custom operator that computes the same as `lowering`. The lowering has standard operators, which read
/// the inputs of `node` and initializers, and write its outputs.
pub fn make_custom(mut node: NodeProto, lowering: Vec<NodeProto>) -> NodeProto {
    let graph = GraphProto { name: LOWERING.into(), node: lowering, ..Default::default() };
    let kind = AttributeType::Graph as i32;
    node.attribute.push(AttributeProto { name: LOWERING.into(), r#type: kind, g: Some(graph), ..Default::default() });
    NodeProto { domain: CUSTOM_DOMAIN.into(), ..node }
}

/// Nodes of a custom operator's lowering. Empty for other nodes.
pub fn lowering(node: &NodeProto) -> &[NodeProto] {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == LOWERING);
    attribute.and_then(|attribute| attribute.g.as_ref()).map_or(&[], |graph| &graph.node)
}

/// Renames a tensor in `node` and its lowering.
pub fn rename_tensor(node: &mut NodeProto, from: &str, to: &str) {
    for name in node.input.iter_mut().chain(&mut node.output).filter(|name| *name == from) {
        *name = to.into();
    }
    let graphs = node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut());
    graphs.flat_map(|graph| &mut graph.node).for_each(|node| rename_tensor(node, from, to));
}

/// Replaces the custom operators of `model` by standard operators. A node for which `has_kernel` returns true stays,
/// and loses its lowering.
pub fn lower_custom(model: &mut ModelProto, has_kernel: impl Fn(&NodeProto) -> bool) {
    let Some(graph) = &mut model.graph else { return };
    lower_nodes(graph, has_kernel);
    model.opset_import.retain(|import| import.domain != CUSTOM_DOMAIN);
    if graph.node.iter().any(|node| node.domain == CUSTOM_DOMAIN) {
        model.opset_import.push(OperatorSetIdProto { domain: CUSTOM_DOMAIN.into(), version: 1 });
    }
}

/// Like [`lower_custom`]. A node that occurs in several lowerings, or in the graph too, is written once. Otherwise
/// tract merges equal nodes, and may keep none of them.
pub fn lower_nodes(graph: &mut GraphProto, has_kernel: impl Fn(&NodeProto) -> bool) {
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let mut lowered = Vec::with_capacity(graph.node.len());
    for mut node in std::mem::take(&mut graph.node) {
        if node.domain == CUSTOM_DOMAIN && has_kernel(&node) {
            node.attribute.retain(|attribute| attribute.name != LOWERING);
        }
        match lowering(&node) {
            [] => lowered.push((node, false)),
            nodes => lowered.extend(nodes.iter().map(|node| (node.clone(), true))),
        }
    }
    let mut first: HashMap<Vec<u8>, (String, bool)> = HashMap::new();
    let mut same: HashMap<String, String> = HashMap::new();
    for (mut node, is_lowered) in lowered {
        for name in &mut node.input {
            if let Some(other) = same.get(name) {
                name.clone_from(other);
            }
        }
        if let [output] = &node.output[..] {
            let key = NodeProto { name: String::new(), output: vec![], ..node.clone() }.encode_to_vec();
            let (other, was_lowered) = first.entry(key).or_insert_with(|| (output.clone(), is_lowered));
            if other != output && (is_lowered || *was_lowered) {
                if !outputs.contains(output.as_str()) {
                    same.insert(output.clone(), other.clone());
                    continue;
                }
                node.input = vec![other.clone()];
                node.op_type = "Identity".into();
                node.attribute.clear();
            }
        }
        graph.node.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Extent, make_node, make_value_info};

    /// Model with `y = x²` as a custom operator, a second `x²`, and the sum of both. `outputs` are the outputs of the
    /// graph.
    fn model(outputs: &[&str]) -> ModelProto {
        let node = |op: &str, inputs: &[&str], output: &str| make_node(op, output, inputs, &[output], vec![]);
        let square = make_custom(node("Square", &["x"], "y"), vec![node("Mul", &["x", "x"], "y")]);
        let nodes = vec![square, node("Mul", &["x", "x"], "z"), node("Add", &["y", "z"], "sum")];
        let output = outputs.iter().map(|name| make_value_info(name, DType::F32, &[Extent::Fixed(2)])).collect();
        ModelProto { graph: Some(GraphProto { node: nodes, output, ..Default::default() }), ..Default::default() }
    }

    fn written(model: &ModelProto) -> Vec<String> {
        let nodes = model.graph.iter().flat_map(|graph| &graph.node);
        nodes.map(|node| format!("{} = {}({})", node.output[0], node.op_type, node.input.join(", "))).collect()
    }

    #[test]
    fn a_lowering_is_merged_with_its_equal() {
        let mut lowered = model(&["sum"]);
        lower_custom(&mut lowered, |_| false);
        assert_eq!(written(&lowered), ["y = Mul(x, x)", "sum = Add(y, y)"]);
        assert!(lowered.opset_import.is_empty());
        let mut lowered = model(&["sum", "z"]);
        lower_custom(&mut lowered, |_| false);
        assert_eq!(written(&lowered), ["y = Mul(x, x)", "z = Identity(y)", "sum = Add(y, z)"]);
    }

    #[test]
    fn an_operator_with_a_kernel_stays() {
        let mut kept = model(&["sum"]);
        lower_custom(&mut kept, |node| node.op_type == "Square");
        assert_eq!(written(&kept), ["y = Square(x)", "z = Mul(x, x)", "sum = Add(y, z)"]);
        assert!(lowering(&kept.graph.as_ref().unwrap().node[0]).is_empty());
        assert_eq!(kept.opset_import[0].domain, CUSTOM_DOMAIN);
    }

    #[test]
    fn a_tensor_is_renamed_in_lowerings_too() {
        let mut nodes = model(&[]).graph.unwrap().node;
        nodes.iter_mut().for_each(|node| rename_tensor(node, "y", "w"));
        assert_eq!((&*nodes[0].output[0], &*lowering(&nodes[0])[0].output[0], &*nodes[2].input[0]), ("w", "w", "w"));
    }
}
