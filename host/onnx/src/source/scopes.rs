//! Names from the scopes of TorchScript nodes.
//!
//! This exporter stores the transpose of a linear layer's weight as `onnx::MatMul_18`, and names the node that reads it
//! after its module: `/encoder/layer.0/query/MatMul`. So the weight is `encoder.layer.0.query.weight`. The packed
//! weights of a recurrent layer are named `rnn.weight_ih`, `rnn.weight_hh` and `rnn.bias`. A norm's scale and bias in a
//! `Mul` and an `Add` are `norm.weight` and `norm.bias`.

use std::collections::HashMap;

use super::names_in_file::{is_taken, rename};
use crate::pb::{GraphProto, NodeProto, TensorProto, tensor_proto::DataType};

/// Module of the source at the start of a node's name: `stem.1` for `/stem/stem.1/Conv`, whose second part repeats the
/// first.
pub fn module(node: &str) -> Option<String> {
    let (path, _) = node.strip_prefix('/')?.rsplit_once('/')?;
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        if parts.last().is_some_and(|last| part.strip_prefix(last).is_some_and(|rest| rest.starts_with('.'))) {
            parts.pop();
        }
        parts.push(part);
    }
    Some(parts.join("."))
}

/// Module of the first node that reads `name`.
pub fn reader(graph: &GraphProto, name: &str) -> Option<String> {
    module(&graph.node.iter().find(|node| node.input.iter().any(|input| input == name))?.name)
}

/// Names each `onnx::` initializer that a layer reads after the layer's module.
pub fn name(graph: &mut GraphProto) {
    let mut wanted: Vec<(String, String)> = Vec::new();
    let mut count: HashMap<String, usize> = HashMap::new();
    let tensors = graph.initializer.iter().filter(|tensor| tensor.data_type == DataType::Float as i32);
    for tensor in tensors.filter(|tensor| tensor.name.starts_with("onnx::") && tensor.dims.iter().product::<i64>() > 1)
    {
        if let Some(name) = graph.node.iter().find_map(|node| given(node, tensor)) {
            *count.entry(name.clone()).or_default() += 1;
            wanted.push((tensor.name.clone(), name));
        }
    }
    for (stored, name) in wanted {
        let name = match count[&name] == 1 && !is_taken(graph, &name) {
            true => name,
            false => format!("{name}/{stored}"),
        };
        if !is_taken(graph, &name) {
            rename(graph, &stored, &name);
        }
    }
}

/// Name for `tensor` as an input of `node`.
fn given(node: &NodeProto, tensor: &TensorProto) -> Option<String> {
    let slot = node.input.iter().position(|input| *input == tensor.name)?;
    let is_of_channels = tensor.dims.iter().filter(|extent| **extent > 1).count() == 1;
    let part = match (node.op_type.as_str(), slot) {
        ("MatMul" | "Gemm" | "Conv" | "ConvTranspose", 1) => "weight",
        ("Gemm" | "Conv" | "ConvTranspose", 2) | ("LSTM" | "GRU" | "RNN", 3) => "bias",
        ("LSTM" | "GRU" | "RNN", 1) => "weight_ih",
        ("LSTM" | "GRU" | "RNN", 2) => "weight_hh",
        ("Mul", _) if is_of_channels => "weight",
        ("Add", _) if is_of_channels => "bias",
        _ => return None,
    };
    Some(format!("{}.{part}", module(&node.name)?))
}
