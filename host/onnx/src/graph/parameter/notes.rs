//! Warnings about a model's parameters before training, one line each.

use std::collections::HashSet;

use super::float::{Float, Note};
use super::reads;
use crate::attr_tensor;
use crate::pb::tensor_proto::DataType;
use crate::pb::{GraphProto, NodeProto};
use crate::source::{ExportRecord, call};

const FLOAT: i32 = DataType::Float as i32;

/// Maximum number of names in a line.
const LISTED: usize = 4;

fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("'{name}'")).collect();
    match names.len().saturating_sub(LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Warnings about `floats`, and about biases that an exporter left out.
pub(super) fn warnings(graph: &GraphProto, record: &ExportRecord, floats: &[Float]) -> Vec<String> {
    let mut lines = Vec::new();
    for (note, text) in [
        (
            Note::OfInput,
            "not trained, for it only shifts or scales an input; give `train` with the name if it is a weight",
        ),
        (Note::OfLoss, "not trained, for it weights the loss; give `train` with the name if it is a parameter"),
        (
            Note::Unexplained,
            "not trained, for it is added to scores or outputs and is no layer's bias; give `train` with the name if it is a weight",
        ),
        (
            Note::Mask,
            "not trained, for it looks like a mask; give `train` with the name if it is a weight, or `freeze` if it is a mask",
        ),
        (
            Note::Doubtful,
            "trained, though it may be a constant that shifts or scales values, or that a layer takes for data; give `freeze` with the \
             name if it is one",
        ),
        (
            Note::Merged,
            "merged by the exporter with an initializer of equal value, and trained apart; give `tie` with the name if they \
             are one",
        ),
        (
            Note::Shared,
            "trained as one weight, though several layers read it; give `untie` with the name if the exporter merged layers \
             of equal values",
        ),
        (
            Note::Computed,
            "trained as the exporter computed it from parameters of the source, which the file does not hold; export with \
             optimize=False (dynamo=True) or do_constant_folding=False to train those",
        ),
        (
            Note::Equal,
            "trained apart from weights of equal values, and nothing in the file says whether they are one; export it again with \
             dynamo=True, or without constant folding, if they are",
        ),
    ] {
        let names: Vec<&str> =
            floats.iter().filter(|float| float.note == Some(note)).map(|float| float.name.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("{}: {text}", list(&names)));
        }
    }
    lines.extend(missing_biases(graph, floats));
    let constants = constant_weights(graph, floats);
    if !constants.is_empty() {
        let text = "not trained, for they are constants of the source, though layers read them as their weights; give `train` with the name \
                    if they are to be trained";
        lines.push(format!("{}: {text}", list(&constants)));
    }
    let texts = [
        "not trained, for the exporter folded it away; export with optimize=False (dynamo=True) if it should be trained",
        "not in the file, and not trained: no output depends on it, it is another name of a weight, or the exporter joined its layer \
         with an equal one; train a step or add a little noise before the export if it should be trained",
    ];
    for (lost, text) in record.lost(graph).iter().zip(texts).filter(|(lost, _)| !lost.is_empty()) {
        lines.push(format!("{}: {text}", list(lost)));
    }
    lines
}

/// Constants in nodes that layers read as weights and that are not parameters.
fn constant_weights<'a>(graph: &'a GraphProto, floats: &[Float]) -> Vec<&'a str> {
    let is_weight = |name: &str| {
        graph.node.iter().any(|node| {
            let slots = if node.op_type == "Gemm" { 1..3 } else { 1..2 };
            matches!(&*node.op_type, "Conv" | "ConvTranspose" | "Gemm" | "MatMul")
                && slots.clone().any(|slot| node.input.get(slot).is_some_and(|input| input == name))
        })
    };
    let is_large = |node: &NodeProto| {
        let tensor = attr_tensor(&node.attribute, "value");
        tensor.is_some_and(|tensor| tensor.data_type == FLOAT && tensor.dims.iter().any(|&extent| extent > 1))
    };
    let constants = graph.node.iter().filter(|node| node.op_type == "Constant" && is_large(node));
    let names = constants.filter_map(|node| node.output.first()).map(String::as_str);
    names.filter(|name| is_weight(name) && floats.iter().all(|float| float.name != *name)).collect()
}

/// Layers of a dynamo export without a bias. That exporter writes a linear layer without a bias as `MatMul`, and omits
/// zero biases of `Gemm` and `Conv`. A convolution before a normalisation over positions usually has no bias.
fn missing_biases(graph: &GraphProto, floats: &[Float]) -> Option<String> {
    let is_dynamo = graph.node.iter().any(|node| node.name.starts_with("node_"));
    let trained: HashSet<&str> = floats.iter().filter(|float| float.trained).map(|float| float.name.as_str()).collect();
    let next = |node: &NodeProto| {
        let output = node.output.first()?;
        graph.node.iter().find(|reader| reader.input.first() == Some(output))
    };
    let is_normalised = |node: &NodeProto| {
        let mut reader = next(node);
        if reader.is_some_and(|reader| reader.op_type == "Reshape") {
            reader = reader.and_then(next);
        }
        reader.is_some_and(|reader| {
            matches!(&*reader.op_type, "InstanceNormalization" | "GroupNormalization" | "BatchNormalization")
        })
    };
    let has_none = |node: &&NodeProto| {
        // A call that the exporter recorded names its bias, which is then restored.
        call(node).is_none()
            && node.input.get(2).is_none_or(String::is_empty)
            && match node.op_type.as_str() {
                "Gemm" => true,
                "Conv" => !is_normalised(node),
                _ => false,
            }
    };
    let layers = graph.node.iter().filter(has_none).filter_map(|node| node.input.get(1)).map(String::as_str);
    let mut seen = HashSet::new();
    let names: Vec<&str> = layers.filter(|name| trained.contains(name) && seen.insert(*name)).collect();
    (is_dynamo && !names.is_empty()).then(|| {
        format!(
            "{}: the layer has no bias in the file, and none is trained; dynamo=True leaves out biases of zeros: add a little \
             noise to them before the export, unless the layer has bias=False",
            list(&names)
        )
    })
}

/// Returns true if several nodes with the same operator read the parameter.
pub(super) fn is_shared(graph: &GraphProto, read_by: &[(usize, usize)]) -> bool {
    let nodes: HashSet<usize> = read_by.iter().map(|read| read.0).collect();
    let mut operators = HashSet::new();
    let role = |node: usize| reads::role(&graph.node[node].op_type, 1);
    nodes.iter().filter(|&&node| role(node) != "operand").any(|&node| !operators.insert(&*graph.node[node].op_type))
}
