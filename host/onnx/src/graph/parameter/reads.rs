//! Nodes that read an initializer, and its role in each.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::constants::stops_gradients;
use super::{GraphOptions, Tensor, glob};
use crate::pb::{GraphProto, NodeProto};
use crate::source::{ExportRecord, call, module, stored};

/// Live nodes and their inputs.
pub(super) struct Reads<'a> {
    /// Nodes that an output depends on.
    pub live: HashSet<usize>,
    /// Aliases by `Identity` (name, initializer), in node order.
    pub aliases: Vec<(&'a str, &'a str)>,
    by_name: HashMap<&'a str, Vec<(usize, usize)>>,
    producer: HashMap<&'a str, usize>,
    /// Nodes through which a gradient from an output passes.
    sloped: HashSet<usize>,
    /// Initializers for which the exporter recorded that each of their readers reads them in the source.
    recorded: HashSet<String>,
    /// Modules of the source that own a tensor.
    modules: HashSet<&'a str>,
    /// Modules that have a node. From the second call on, the name has a number.
    calls: HashSet<String>,
}

impl<'a> Reads<'a> {
    pub fn of(graph: &'a GraphProto, record: &ExportRecord) -> Reads<'a> {
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
        let names = |node: usize, parameters: &[&str]| {
            let call = call(&graph.node[node]);
            is_exchange(&graph.node[node])
                || call.is_some_and(|call| {
                    call.arguments.iter().filter_map(|one| record.source(one)).any(|one| parameters.contains(&one))
                })
        };
        let is_recorded = |(name, reads): &(&&str, &Vec<(usize, usize)>)| {
            let parameters = record.parameters(name);
            !parameters.is_empty() && reads.iter().all(|read| names(read.0, &parameters))
        };
        let recorded = by_name.iter().filter(is_recorded).map(|(name, _)| name.to_string()).collect();
        let (modules, calls) = (modules(graph), calls(graph));
        Reads { live, aliases, by_name, producer, sloped, recorded, modules, calls }
    }

    /// Module whose call contains `node` of a TorchScript export: `layer.0.fc` for `/layer.0_1/fc/MatMul`. The name of
    /// a second call ends in a number, unless a module has that name.
    pub fn module(&self, node: &NodeProto) -> Option<String> {
        // A node of the top module has no scope.
        let path = node.name.strip_prefix('/')?;
        let path = if path.contains('/') { module(&node.name)? } else { String::new() };
        let mut module = String::new();
        for part in path.split('.') {
            let called = |part: &str| if module.is_empty() { part.to_string() } else { format!("{module}.{part}") };
            let again = part.rsplit_once('_').filter(|(_, number)| number.parse::<u32>().is_ok());
            module = match again {
                // The first call has no number.
                Some((first, _))
                    if !self.modules.contains(called(part).as_str()) && self.calls.contains(&called(first)) =>
                {
                    called(first)
                }
                _ => called(part),
            };
        }
        Some(module)
    }

    /// Returns true if all these nodes belong to one module of TorchScript.
    pub fn are_of_one_module(&self, graph: &GraphProto, mut nodes: impl Iterator<Item = usize>) -> bool {
        let first = nodes.next().and_then(|node| self.module(&graph.node[node]));
        first.is_some() && nodes.all(|node| self.module(&graph.node[node]) == first)
    }

    /// Returns true if the exporter recorded for each reader of the initializer that it reads the same tensor in the
    /// source.
    pub fn is_recorded(&self, name: &str) -> bool {
        self.recorded.contains(name)
    }

    /// Returns true if a gradient from an output may pass through input `slot` of `node`.
    pub fn returns_gradients(&self, graph: &GraphProto, node: usize, slot: usize) -> bool {
        self.sloped.contains(&node) && !stops_gradients(&graph.node[node], slot)
    }

    /// Node that computes `name`.
    pub fn producer(&self, name: &str) -> Option<usize> {
        self.producer.get(name).copied()
    }

    /// (node, input slot) of every reader of `name`, in node order.
    pub fn of_name(&self, name: &str) -> &[(usize, usize)] {
        self.by_name.get(name).map_or(&[], |reads| reads.as_slice())
    }

    /// Readers of `name`, grouped by the parameter that they read. There is a single group unless equal values were
    /// merged.
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
        let is_known = self.is_recorded(name) || self.are_of_one_module(graph, groups.keys().copied());
        let is_merged = !is_known && uniform.contains(name) && tensors.get(name).is_some_and(|t| t.data.len() > 1);
        let mut weights = HashSet::new();
        let mut is_one_layer =
            || groups.keys().any(|&node| !self.weights(graph, node, tensors, uniform).all(|own| weights.insert(own)));
        let is_given = !options.parameter.is_empty();
        // An adapter starts from zeros, and is one parameter for all readers of its weight.
        let is_adapter = options.adapters.iter().any(|adapter| adapter == name);
        let split = !is_given
            && !is_adapter
            && (glob::any(&options.untie, name) || is_merged && !glob::any(&options.tie, name) && !is_one_layer());
        if split { groups.into_values().collect() } else { vec![read_by.to_vec()] }
    }

    /// Weights that distinguish layers: those that `node` reads, and, if it adds a bias, those of the node before it.
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

    /// Initializer that is added to the output of `node`, a product or a convolution.
    pub fn bias_after(&self, graph: &'a GraphProto, node: usize) -> Option<&'a str> {
        let (node, output) = (&graph.node[node], graph.node[node].output.first()?);
        if let Some(bias) = node.input.get(2).filter(|name| !name.is_empty()) {
            return matches!(&*node.op_type, "Gemm" | "Conv").then_some(bias.as_str());
        }
        let adds =
            self.of_name(output).iter().map(|read| &graph.node[read.0]).find(|reader| reader.op_type == "Add")?;
        let bias = adds.input.iter().find(|name| *name != output)?;
        graph.initializer.iter().any(|tensor| tensor.name == *bias).then_some(bias.as_str())
    }

    /// Final node and input slot of a read, after nodes that only reshape.
    pub fn end_of(&self, graph: &GraphProto, (mut node, mut slot): (usize, usize)) -> (usize, usize) {
        let only_reshapes = |op: &str| matches!(op, "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose");
        // The number of nodes bounds the length of a chain.
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

    /// Returns true if `node` is the `InstanceNormalization` of an exported GroupNorm, and `slot` its scale or bias.
    /// Such a node normalises a reshape into groups.
    pub fn is_decomposed_group_norm(&self, graph: &GraphProto, node: usize, slot: usize) -> bool {
        let norm = &graph.node[node];
        let reshaped = || {
            let from = norm.input.first().and_then(|name| self.producer.get(name.as_str()));
            from.is_some_and(|&from| graph.node[from].op_type == "Reshape")
        };
        norm.op_type == "InstanceNormalization" && matches!(slot, 1 | 2) && reshaped()
    }
}

/// Nodes with a path to an output that includes more than comparisons, integers and steps.
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

/// Modules in the names of TorchScript's nodes, and the modules that contain them.
fn calls(graph: &GraphProto) -> HashSet<String> {
    let paths = graph.node.iter().filter_map(|node| module(&node.name));
    let around = |path: String| {
        let ends: Vec<usize> = path.match_indices('.').map(|(at, _)| at).chain([path.len()]).collect();
        ends.into_iter().map(move |end| path[..end].to_string()).collect::<Vec<_>>()
    };
    paths.flat_map(around).collect()
}

/// Modules of the initializers that have names from the source.
fn modules(graph: &GraphProto) -> HashSet<&str> {
    let renamed: HashSet<&str> = stored(graph).map(|(name, _)| name).collect();
    let identities = graph.node.iter().filter(|node| node.op_type == "Identity").flat_map(|node| &node.output);
    let names = graph.initializer.iter().map(|tensor| tensor.name.as_str()).chain(identities.map(String::as_str));
    names
        .filter(|name| !renamed.contains(name))
        .flat_map(|name| name.match_indices('.').map(move |(at, _)| &name[..at]))
        .collect()
}

/// Returns true if `node` brings a tied weight into a copy's shape.
pub(super) fn is_exchange(node: &NodeProto) -> bool {
    node.output.first().is_some_and(|copy| node.name.strip_suffix("/tied") == Some(copy))
}

/// Role of input `slot` of an operator.
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

/// Returns true if `op` is a layer with weights. Masks are added, multiplied or selected from, and no layer reads them.
pub(super) fn is_layer(op: &str) -> bool {
    match op {
        "MatMul" | "Gemm" | "Conv" | "ConvTranspose" | "GRU" | "LSTM" | "RNN" | "Einsum" | "PRelu" => true,
        _ => op.ends_with("Normalization"),
    }
}

/// Inputs that configure an operator, or that the operator itself counts.
pub(super) fn is_setting(op: &str, slot: usize) -> bool {
    matches!(
        (op, slot),
        ("Pow" | "Dropout", 1)
            | ("Clip" | "Resize" | "Pad", 1..)
            | ("BatchNormalization", 3 | 4)
            | ("NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss", 2)
    )
}
