//! Separates initializers that the exporter merged.
//!
//! The exporter stores small tensors of equal value once, under the name of the first, and all nodes read it. The call
//! recorded for a node names its own tensors: `layer_norm(%x, [32], %p_norm2_weight, %p_norm2_bias)`. So each read gets
//! an initializer of that name. A call that names no tensor of the source reads a constant, even if it was merged into
//! a parameter.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::names_in_file::{is_taken, note};
use super::record::{ExportRecord, KIND, call, call_text};
use crate::pb::{GraphProto, NodeProto, tensor_proto::DataType};

/// Read of an initializer: node and input slot.
type Read = (usize, usize);

/// Nodes of one call, and the source tensors that it names, in order.
struct Reader<'a> {
    nodes: Vec<usize>,
    sources: Vec<&'a str>,
    /// Weight and bias of a product or a convolution.
    layer: Option<(&'a str, &'a str)>,
    /// True if its nodes read its tensors in the order of the arguments: a normalisation's scale and bias.
    is_ordered: bool,
    /// True if every argument is a tensor of the source or a value of the graph.
    is_plain: bool,
}

/// Separates merged initializers.
pub fn take_apart(graph: &mut GraphProto, record: &ExportRecord) {
    let mut own: BTreeMap<(String, String), Vec<Read>> = BTreeMap::new();
    let mut constants: BTreeMap<String, Vec<Read>> = BTreeMap::new();
    {
        let mergeable = mergeable(graph);
        for reader in readers(graph, record) {
            let mut sources = reader.sources.clone();
            let mut foreign = Vec::new();
            for read in reads(graph, &reader, &mergeable) {
                let name = graph.node[read.0].input[read.1].as_str();
                let known = record.parameters(name);
                let known = if known.is_empty() { vec![name] } else { known };
                // Several nodes of a call may read the same tensor.
                match reader.sources.iter().any(|source| known.contains(source)) {
                    true => sources.retain(|source| !known.contains(source)),
                    false => foreign.push((name, read)),
                }
            }
            if foreign.len() > sources.len() {
                // Constants of a norm that is written as several nodes.
                foreign.retain(|(name, _)| !record.parameters(name).is_empty());
            }
            if let Some((weight, bias)) = reader.layer {
                for (name, read) in foreign {
                    let source = if is_weight(&graph.node[read.0], read.1) { weight } else { bias };
                    if sources.contains(&source) {
                        own.entry((name.into(), source.into())).or_default().push(read);
                    }
                }
            } else if sources.len() == foreign.len() && (reader.is_ordered || sources.len() == 1) {
                for ((name, read), source) in foreign.into_iter().zip(sources) {
                    own.entry((name.into(), source.into())).or_default().push(read);
                }
            } else if sources.is_empty() && reader.is_plain {
                for (name, read) in foreign.into_iter().filter(|(name, _)| !record.parameters(name).is_empty()) {
                    constants.entry(name.into()).or_default().push(read);
                }
            }
        }
    }
    for ((merged, source), reads) in own {
        if !is_taken(graph, &source) {
            copy(graph, &merged, &source, &reads);
            note(graph, &source, KIND, if record.is_parameter(&source) { "PARAMETER" } else { "BUFFER" });
        }
    }
    for (merged, reads) in constants {
        let name = format!("{merged}/constant");
        if !is_taken(graph, &name) {
            copy(graph, &merged, &name, &reads);
            note(graph, &name, KIND, "CONSTANT_TENSOR");
        }
    }
}

/// Adds an initializer with the values of `from`, which `reads` then read.
fn copy(graph: &mut GraphProto, from: &str, to: &str, reads: &[Read]) {
    let Some(mut tensor) = graph.initializer.iter().find(|tensor| tensor.name == from).cloned() else { return };
    tensor.name = to.into();
    graph.initializer.push(tensor);
    for &(node, slot) in reads {
        graph.node[node].input[slot] = to.into();
    }
}

/// Initializers that may have been merged: floats with more than one element. Scalars are merged with settings.
fn mergeable(graph: &GraphProto) -> HashSet<&str> {
    let float =
        |kind: i32| [DataType::Float as i32, DataType::Float16 as i32, DataType::Bfloat16 as i32].contains(&kind);
    let tensors = graph.initializer.iter().filter(|tensor| float(tensor.data_type));
    tensors.filter(|tensor| tensor.dims.iter().product::<i64>() > 1).map(|tensor| tensor.name.as_str()).collect()
}

/// Calls of the source, in the order of their first node.
fn readers<'a>(graph: &'a GraphProto, record: &'a ExportRecord) -> Vec<Reader<'a>> {
    let outputs = graph.node.iter().flat_map(|node| &node.output).chain(graph.input.iter().map(|input| &input.name));
    let values: HashSet<&str> = outputs.map(String::as_str).collect();
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut readers: Vec<Reader<'a>> = Vec::new();
    for (index, node) in graph.node.iter().enumerate() {
        let (Some(call), Some(text)) = (call(node), call_text(node)) else { continue };
        if let Some(&known) = at.get(text) {
            readers[known].nodes.push(index);
            continue;
        }
        at.insert(text, readers.len());
        let sources = call.arguments.iter().filter_map(|argument| record.source(argument)).collect();
        let is_value = |name: &&str| record.source(name).is_some() || record.is_input(name) || values.contains(*name);
        let is_plain = call.arguments.iter().all(is_value);
        let layer =
            call.weight_and_bias().and_then(|(weight, bias)| Some((record.source(weight)?, record.source(bias)?)));
        let is_ordered = call.target.contains("norm");
        readers.push(Reader { nodes: vec![index], sources, layer, is_ordered, is_plain });
    }
    readers
}

/// Returns true if `node` reads the weight of a layer, and not its bias, at `slot`.
fn is_weight(node: &NodeProto, slot: usize) -> bool {
    slot == 1 && matches!(&*node.op_type, "MatMul" | "Gemm" | "Conv" | "ConvTranspose")
}

/// Reads of `mergeable` by the nodes of the call, in the order of nodes and inputs.
fn reads(graph: &GraphProto, reader: &Reader<'_>, mergeable: &HashSet<&str>) -> Vec<Read> {
    let all = reader.nodes.iter().flat_map(|&node| (0..graph.node[node].input.len()).map(move |slot| (node, slot)));
    all.filter(|&(node, slot)| mergeable.contains(graph.node[node].input[slot].as_str())).collect()
}
