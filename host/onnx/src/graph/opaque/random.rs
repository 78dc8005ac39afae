//! Operators whose result is not a function of their inputs alone. The frozen part may have none.

use super::super::GraphError;
use super::super::refused::{self, RANDOM, REMOVE};
use super::operators::operator;
use crate::pb::{GraphProto, NodeProto};
use crate::scopes::inner;
use crate::{TensorData, attr_int, attr_tensor, decode_tensor};

/// Returns an error if `node` of `graph`, or a node of its subgraphs, draws random numbers or is in training mode.
pub(super) fn is_refused(graph: &GraphProto, node: &NodeProto) -> Result<(), GraphError> {
    let is_training = match node.op_type.as_str() {
        "Dropout" => node.input.get(2).is_some_and(|name| !name.is_empty() && !is_false(graph, name)),
        "BatchNormalization" => {
            let outputs = node.output.iter().filter(|name| !name.is_empty()).count();
            attr_int(&node.attribute, "training_mode", 0) != 0 || outputs > 1
        }
        _ => false,
    };
    if is_training || is_random(&node.domain, &node.op_type) {
        let known = refused::find(&node.domain, &node.op_type);
        let (reason, remedy) = known.map_or((RANDOM, REMOVE), |known| (known.reason, known.remedy));
        let (node, op) = (node.name.clone(), operator(node));
        return Err(GraphError::Refused { node, op, reason: reason.into(), remedy: remedy.into() });
    }
    inner(node).try_for_each(|graph| graph.node.iter().try_for_each(|node| is_refused(graph, node)))
}

/// Returns true if the operator of this domain draws random numbers in every mode.
pub(super) fn is_random(domain: &str, op: &str) -> bool {
    let is_standard = matches!(domain, "" | "ai.onnx");
    let names = ["Bernoulli", "Multinomial", "Random", "Sampling"];
    // onnxruntime's fused forms of Dropout have names such as BitmaskBiasDropout.
    names.iter().any(|name| op.starts_with(name)) || !is_standard && op.contains("Dropout")
}

/// Returns true if `name` is a constant of `graph` that is false.
fn is_false(graph: &GraphProto, name: &str) -> bool {
    let stored = graph.initializer.iter().find(|tensor| tensor.name == name);
    let constant = || {
        let node =
            graph.node.iter().find(|node| node.op_type == "Constant" && node.output.first().is_some_and(|n| n == name));
        node.and_then(|node| attr_tensor(&node.attribute, "value"))
    };
    let tensor = stored.or_else(constant).and_then(|tensor| decode_tensor(tensor).ok());
    tensor.is_some_and(|tensor| matches!(tensor.data, TensorData::Bool(values) if values == [false]))
}
