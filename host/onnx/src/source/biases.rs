//! Zero biases that the exporter dropped.
//!
//! The exporter writes a linear layer or a convolution without its bias if the bias is zero. The recorded call still
//! names the bias. So it becomes a zero initializer again and can be trained.

use super::names_in_file::{is_taken, note};
use super::record::{ExportRecord, KIND, call};
use crate::pb::{GraphProto, NodeProto};
use crate::{attr_int, decode_tensor, make_tensor_f32};
use std::collections::HashMap;

/// Restores the zero biases that the calls of `Gemm` and `Conv` nodes name as the third argument.
pub fn restore(graph: &mut GraphProto, record: &ExportRecord) {
    let nodes = graph.node.iter().enumerate();
    let found: Vec<(usize, String, usize)> =
        nodes.filter_map(|(index, node)| Some((index, dropped(graph, record, node)?, length(graph, node)?))).collect();
    let mut made: HashMap<String, usize> = HashMap::new();
    for (index, name, length) in found {
        match made.get(&name) {
            Some(known) if *known == length => {}
            Some(_) => continue,
            // Another value has this name.
            None if is_taken(graph, &name) => continue,
            None => {
                graph.initializer.push(make_tensor_f32(&name, &[length], &vec![0.0; length]));
                note(graph, &name, KIND, "PARAMETER");
                made.insert(name.clone(), length);
            }
        }
        let inputs = &mut graph.node[index].input;
        inputs.truncate(2);
        inputs.push(name);
    }
}

/// Name of the missing bias of `node`.
fn dropped(graph: &GraphProto, record: &ExportRecord, node: &NodeProto) -> Option<String> {
    let call = call(node)?;
    let has_layer = match node.op_type.as_str() {
        "Gemm" => ["aten.linear.default", "aten.addmm.default"].contains(&call.target),
        "Conv" | "ConvTranspose" => call.target.starts_with("aten.conv"),
        _ => false,
    };
    let has_none = node.input.get(2).is_none_or(String::is_empty);
    let (weight, bias) = call.weight_and_bias()?;
    let (weight, bias) = (record.source(weight)?, record.source(bias)?);
    let stored = node.input.get(1)?;
    let is_own = stored == weight || record.parameters(stored).contains(&weight);
    // A bias with another reader has values.
    let is_absent = graph.initializer.iter().all(|tensor| tensor.name != bias);
    (has_layer && has_none && is_own && is_absent && record.is_parameter(bias)).then(|| bias.to_string())
}

/// Number of outputs of a layer.
fn length(graph: &GraphProto, node: &NodeProto) -> Option<usize> {
    let weight = graph.initializer.iter().find(|tensor| Some(&tensor.name) == node.input.get(1))?;
    // The shape matches the data, so a malicious shape cannot allocate more.
    decode_tensor(weight).ok().filter(|tensor| tensor.as_f32().is_some())?;
    let extent = |axis: usize| weight.dims.get(axis).and_then(|&extent| usize::try_from(extent).ok());
    match node.op_type.as_str() {
        "Gemm" if attr_int(&node.attribute, "transB", 0) == 0 => extent(1),
        "ConvTranspose" => extent(1)?.checked_mul(usize::try_from(attr_int(&node.attribute, "group", 1)).ok()?),
        _ => extent(0),
    }
}
