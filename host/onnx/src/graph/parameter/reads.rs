//! The nodes that read an initializer, and its role in each.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::constants::stops_gradients;
use super::{GraphOptions, Tensor, glob};
use crate::pb::GraphProto;

/// The nodes that matter, and what they read.
pub(super) struct Reads<'a> {
    /// Nodes that an output depends on.
    pub live: HashSet<usize>,
    /// Aliases by `Identity` (name, initializer), in node order.
    pub aliases: Vec<(&'a str, &'a str)>,
    by_name: HashMap<&'a str, Vec<(usize, usize)>>,
    producer: HashMap<&'a str, usize>,
    /// Nodes that pass a gradient on from an output.
    sloped: HashSet<usize>,
}

impl<'a> Reads<'a> {
    pub fn of(graph: &'a GraphProto) -> Reads<'a> {
        let outputs = |(i, node): (usize, &'a crate::pb::NodeProto)| {
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
        let sloped = sloped(graph);
        Reads { live, aliases, by_name, producer, sloped }
    }

    /// Returns true if a gradient may come back from an output through input `slot` of `node`.
    pub fn returns_gradients(&self, graph: &GraphProto, node: usize, slot: usize) -> bool {
        self.sloped.contains(&node) && !stops_gradients(&graph.node[node], slot)
    }

    /// (node, input slot) of every reader of `name`, in node order.
    pub fn of_name(&self, name: &str) -> &[(usize, usize)] {
        self.by_name.get(name).map_or(&[], |reads| reads.as_slice())
    }

    /// The readers of `name`, grouped into the parameters that they read: one group, unless equal values were merged.
    pub fn layers(
        &self,
        graph: &GraphProto,
        name: &str,
        tensors: &HashMap<&str, Tensor>,
        uniform: &HashSet<&str>,
        options: &GraphOptions,
    ) -> Vec<Vec<(usize, usize)>> {
        let read_by = self.of_name(name);
        let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &(node, slot) in read_by {
            groups.entry(node).or_default().push((node, slot));
        }
        let is_merged = uniform.contains(name) && tensors.get(name).is_some_and(|t| t.data.len() > 1);
        let mut weights = HashSet::new();
        let mut is_one_layer =
            || groups.keys().any(|&node| !self.weights(graph, node, tensors, uniform).all(|own| weights.insert(own)));
        let is_given = !options.parameter.is_empty();
        // An adapter starts from zeros, and is one for all readers of its weight.
        let is_adapter = options.adapters.iter().any(|adapter| adapter == name);
        let split = !is_given
            && !is_adapter
            && (glob::any(&options.untie, name) || is_merged && !glob::any(&options.tie, name) && !is_one_layer());
        if split { groups.into_values().collect() } else { vec![read_by.to_vec()] }
    }

    /// The weights that tell layers apart: what `node` reads, and, where it adds a bias, the node before it.
    fn weights<'b>(
        &'b self,
        graph: &'b GraphProto,
        node: usize,
        tensors: &'b HashMap<&str, Tensor>,
        uniform: &'b HashSet<&str>,
    ) -> impl Iterator<Item = &'b str> {
        let inputs = &graph.node[node].input;
        let before = inputs.iter().filter_map(|input| self.producer.get(input.as_str())).filter(move |&&before| {
            graph.node[node].op_type == "Add"
                && matches!(graph.node[before].op_type.as_str(), "MatMul" | "Gemm" | "Conv")
        });
        let own = inputs.iter().chain(before.flat_map(|&before| &graph.node[before].input)).map(String::as_str);
        let own: HashSet<&str> = own.filter(|name| tensors.contains_key(name) && !uniform.contains(name)).collect();
        own.into_iter()
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

    /// Returns true if `node` is the `InstanceNormalization` of an exported GroupNorm (it normalises a reshape into groups), and
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

/// The nodes on which an output depends otherwise than by comparisons, integers and steps.
fn sloped(graph: &GraphProto) -> HashSet<usize> {
    let mut reached: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let mut sloped = HashSet::new();
    for (index, node) in graph.node.iter().enumerate().rev() {
        if node.output.iter().any(|output| reached.contains(output.as_str())) {
            sloped.insert(index);
            let inputs = node.input.iter().enumerate().filter(|(slot, _)| !stops_gradients(node, *slot));
            reached.extend(inputs.map(|(_, input)| input.as_str()));
        }
    }
    sloped
}

/// The role of input `slot` of an operator.
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

/// Returns true if `op` is a layer with weights. A mask is added, multiplied or chosen from, and no layer reads one.
pub(super) fn is_layer(op: &str) -> bool {
    match op {
        "MatMul" | "Gemm" | "Conv" | "ConvTranspose" | "GRU" | "LSTM" | "RNN" | "Einsum" | "PRelu" => true,
        _ => op.ends_with("Normalization"),
    }
}

/// Inputs that configure an operator, or that it counts itself.
pub(super) fn is_setting(op: &str, slot: usize) -> bool {
    matches!(
        (op, slot),
        ("Pow" | "Dropout", 1)
            | ("Clip" | "Resize" | "Pad", 1..)
            | ("BatchNormalization", 3 | 4)
            | ("NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss", 2)
    )
}

/// Names that exporters invent: `val_3`, `onnx::Mul_12`, `/block/Constant_output_0`, and those of folded operators and of
/// constants, `permute_1`, `scalar_tensor_default`; TensorFlow's `norm/add/y:0`. PyTorch's parameters below the top module have a dot.
pub(super) fn is_exporters_name(name: &str) -> bool {
    const STEMS: &[&str] = &[
        "_tensor_constant",
        "_to_copy",
        "arange",
        "clone",
        "cos",
        "detach_",
        "div",
        "embedding",
        "exp",
        "expand",
        "eye",
        "full",
        "full_like",
        "lift_fresh_copy",
        "lifted_tensor",
        "linspace",
        "max_val_cast",
        "min_val_cast",
        "mul",
        "neg",
        "ones",
        "ones_like",
        "permute",
        "pow",
        "reciprocal",
        "repeat",
        "rsqrt",
        "select",
        "sin",
        "slice",
        "sqrt",
        "t",
        "to",
        "transpose",
        "tril",
        "triu",
        "unsqueeze",
        "view",
        "zeros",
        "zeros_like",
    ];
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    name.strip_prefix("val_").is_some_and(digits)
        || digits(name)
        || name.starts_with("onnx::")
        || name.starts_with('/')
        || name.starts_with("scalar_tensor")
        || name.starts_with("const_")
        || ["/x:0", "/y:0"].iter().any(|operand| name.ends_with(operand))
        || STEMS.contains(&stem)
}
