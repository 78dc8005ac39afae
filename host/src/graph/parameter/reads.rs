//! Who reads an initializer, and as what.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Tensor;
use crate::onnx::pb::GraphProto;

/// The nodes that matter, and what they read.
pub(super) struct Reads<'a> {
    /// Nodes that an output depends on.
    pub live: HashSet<usize>,
    /// Aliases by `Identity` (name, initializer), in node order.
    pub aliases: Vec<(&'a str, &'a str)>,
    by_name: HashMap<&'a str, Vec<(usize, usize)>>,
    producer: HashMap<&'a str, usize>,
}

impl<'a> Reads<'a> {
    pub fn of(graph: &'a GraphProto) -> Reads<'a> {
        let outputs = |(i, node): (usize, &'a crate::onnx::pb::NodeProto)| {
            node.output.iter().filter(|name| !name.is_empty()).map(move |name| (name.as_str(), i))
        };
        let producer: HashMap<&str, usize> = graph.node.iter().enumerate().flat_map(outputs).collect();
        let mut live = HashSet::new();
        let mut open: Vec<usize> =
            graph.output.iter().filter_map(|output| producer.get(output.name.as_str()).copied()).collect();
        while let Some(node) = open.pop() {
            if live.insert(node) {
                open.extend(graph.node[node].input.iter().filter_map(|name| producer.get(name.as_str()).copied()));
            }
        }
        let initializers: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        let mut base: HashMap<&str, &str> = HashMap::new();
        let mut aliases = Vec::new();
        let mut by_name: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (i, node) in graph.node.iter().enumerate().filter(|(i, _)| live.contains(i)) {
            if let ("Identity", [from], [to]) = (node.op_type.as_str(), node.input.as_slice(), node.output.as_slice()) {
                let from = from.as_str();
                let origin = initializers.get(from).copied().or_else(|| base.get(from).copied());
                if let Some(origin) = origin {
                    base.insert(to, origin);
                    aliases.push((to.as_str(), origin));
                    continue;
                }
            }
            for (slot, name) in node.input.iter().enumerate() {
                by_name.entry(name).or_default().push((i, slot));
            }
        }
        Reads { live, aliases, by_name, producer }
    }

    /// (node, input slot) of every reader of `name`, in node order.
    pub fn of_name(&self, name: &str) -> &[(usize, usize)] {
        self.by_name.get(name).map_or(&[], |reads| reads.as_slice())
    }

    /// The node, and its input, that a read leads to through nodes that only reshape.
    pub fn end_of(&self, graph: &GraphProto, (mut node, mut slot): (usize, usize)) -> (usize, usize) {
        let only_reshapes = |op: &str| matches!(op, "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose");
        // The bound is the longest chain there can be.
        for _ in 0..graph.node.len() {
            if slot != 0 || !only_reshapes(&graph.node[node].op_type) {
                break;
            }
            let Some(&next) = graph.node[node].output.first().and_then(|name| self.of_name(name).first()) else {
                break;
            };
            (node, slot) = next;
        }
        (node, slot)
    }

    /// Whether `node` is the `InstanceNormalization` of an exported GroupNorm (it normalises a reshape into groups), and
    /// `slot` its scale or bias.
    pub fn is_decomposed_group_norm(&self, graph: &GraphProto, node: usize, slot: usize) -> bool {
        let norm = &graph.node[node];
        let reshaped = || {
            let from = norm.input.first().and_then(|name| self.producer.get(name.as_str()));
            from.is_some_and(|&from| graph.node[from].op_type == "Reshape")
        };
        norm.op_type == "InstanceNormalization" && matches!(slot, 1 | 2) && reshaped()
    }
}

/// The readers of `name`, grouped into the parameters that they read: one group, unless equal values were merged.
pub(super) fn layers(
    graph: &GraphProto,
    read_by: &[(usize, usize)],
    name: &str,
    tensors: &HashMap<&str, Tensor>,
    uniform: &HashSet<&str>,
) -> Vec<Vec<(usize, usize)>> {
    let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for &(node, slot) in read_by {
        groups.entry(node).or_default().push((node, slot));
    }
    let is_merged = tensors.get(name).is_some_and(|t| !t.shape.is_empty()) && uniform.contains(name);
    let mut weights = HashSet::new();
    let is_one_layer = groups.keys().any(|&node| {
        let own: HashSet<&str> = graph.node[node]
            .input
            .iter()
            .map(String::as_str)
            .filter(|input| tensors.contains_key(input) && !uniform.contains(input))
            .collect();
        !own.into_iter().all(|weight| weights.insert(weight))
    });
    if is_merged && !is_one_layer { groups.into_values().collect() } else { vec![read_by.to_vec()] }
}

/// What input `slot` of an operator is.
pub(super) fn role(op: &str, slot: usize) -> &'static str {
    match (op, slot) {
        ("Conv" | "ConvTranspose" | "GRU" | "LSTM" | "RNN", 1) | ("MatMul", _) | ("Gemm", 0 | 1) => "weight",
        ("Conv" | "ConvTranspose" | "Gemm", 2) | ("Add" | "Sub", _) | ("GRU" | "LSTM" | "RNN", 3) => "bias",
        ("GRU" | "LSTM" | "RNN", 2) => "recurrent weight",
        (op, 1) if op.ends_with("Normalization") => "scale",
        (op, 2) if op.ends_with("Normalization") => "bias",
        ("BatchNormalization", 3) => "running mean",
        ("BatchNormalization", 4) => "running variance",
        ("Mul", _) | ("Div", 0) => "scale",
        ("Div", _) => "divisor",
        ("PRelu", 1) => "slope",
        ("Gather", 0) => "table",
        ("Pow", 1) => "exponent",
        _ if is_setting(op, slot) => "setting",
        _ => "operand",
    }
}

/// Inputs that configure an operator, or that it counts itself.
pub(super) fn is_setting(op: &str, slot: usize) -> bool {
    matches!((op, slot), ("Pow" | "Dropout", 1) | ("Clip" | "Resize" | "Pad", 1..) | ("BatchNormalization", 3 | 4))
}

/// Names that exporters invent: `val_3`, `onnx::Mul_12`, `/block/Constant_output_0`, `scalar_tensor_default`.
pub(super) fn is_exporters_name(name: &str) -> bool {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    numbered("val_")
        || numbered("")
        || name.starts_with("onnx::")
        || name.starts_with('/')
        || name.starts_with("scalar_tensor")
}
