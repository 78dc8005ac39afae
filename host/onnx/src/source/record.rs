//! Record of the source tensors in a file of PyTorch's dynamo exporter.
//!
//! - Of the graph: the signature of the exported program, with lines such as
//!   `p_fc_weight: PARAMETER target='fc.weight'`.
//! - Of a value: its kind (`PARAMETER`, `BUFFER`), or the names of the values from which it was folded
//!   (`['fc.weight']`).
//! - Of a node: the call to which it belongs, such as
//!   `%linear = call_function[target=...](args = (%x, %p_fc_weight, %p_fc_bias), ...)`.

use std::collections::{HashMap, HashSet};

use super::names_in_file::STORED_AS;
use crate::pb::{GraphProto, NodeProto, StringStringEntryProto};

const SIGNATURE: &str = "pkg.torch.export.ExportedProgram.graph_signature";
/// Metadata key for the kind of a value.
pub const KIND: &str = "pkg.torch.export.graph_signature.InputSpec.kind";
const FOLDED_FROM: &str = "pkg.onnxscript.optimizer.folded_from";
const CALL: &str = "pkg.torch.onnx.fx_node";

/// Names of values that were only moved, by the last call. `val` is the exporter's own name.
const MOVES: &[&str] = &[
    "_to_copy",
    "alias",
    "clone",
    "contiguous",
    "detach",
    "embedding",
    "entry",
    "expand",
    "flatten",
    "gather",
    "getitem",
    "index",
    "index_select",
    "movedim",
    "permute",
    "reshape",
    "select",
    "slice",
    "squeeze",
    "t",
    "table",
    "to",
    "transpose",
    "unsqueeze",
    "val",
    "view",
];

/// Names of calls that do not compute indices.
const COMPUTES: &[&str] = &[
    "_native_batch_norm_legit",
    "batch_norm",
    "exp",
    "gelu",
    "linalg_vector_norm",
    "linear",
    "matmul",
    "mm",
    "relu",
    "rsqrt",
    "sigmoid",
    "softmax",
    "softplus",
    "sqrt",
    "tanh",
    "var",
    "var_mean",
];

/// Kind of a tensor in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// An `nn.Parameter`, or computed from parameters.
    Parameter,
    /// A buffer or constant, or computed only from these.
    Constant,
}

/// Record of an exporter.
#[derive(Default, Debug)]
pub struct ExportRecord {
    /// Names in the source, by names in the exported program.
    placeholders: HashMap<String, String>,
    kinds: HashMap<String, SourceKind>,
    /// Names of the inputs in the exported program.
    inputs: HashSet<String>,
    /// Origins of a folded initializer, by its name: all values on the path.
    folded: HashMap<String, Vec<String>>,
    /// Names of renamed initializers in the exported file.
    stored: HashMap<String, String>,
}

/// Call in the source to which nodes belong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceCall<'a> {
    /// Target, such as `aten.linear.default`.
    pub target: &'a str,
    /// Arguments that are values, in order, without `%`.
    pub arguments: Vec<&'a str>,
}

impl<'a> SourceCall<'a> {
    /// Weight and bias of a layer, by their positions in the arguments.
    pub fn weight_and_bias(&self) -> Option<(&'a str, &'a str)> {
        match (self.target, self.arguments.as_slice()) {
            ("aten.addmm.default", &[bias, _, weight]) => Some((weight, bias)),
            (target, &[_, weight, bias]) if target == "aten.linear.default" || target.starts_with("aten.conv") => {
                Some((weight, bias))
            }
            _ => None,
        }
    }
}

impl ExportRecord {
    /// Record in `graph`, which may be empty.
    pub fn of(graph: &GraphProto) -> ExportRecord {
        let mut record = ExportRecord::default();
        for line in value(&graph.metadata_props, SIGNATURE).unwrap_or_default().lines() {
            record.read_signature(line);
        }
        for info in &graph.value_info {
            if let Some(kind) = value(&info.metadata_props, KIND).and_then(kind) {
                record.kinds.insert(info.name.clone(), kind);
            }
            if let Some(stored) = value(&info.metadata_props, STORED_AS) {
                record.stored.insert(info.name.clone(), stored.into());
            }
            if let Some(list) = value(&info.metadata_props, FOLDED_FROM) {
                record.folded.insert(info.name.clone(), quoted(list).map(String::from).collect());
            }
        }
        record
    }

    /// Parses a line such as `p_fc_weight: PARAMETER target='fc.weight'`.
    fn read_signature(&mut self, line: &str) {
        let Some((placeholder, rest)) = line.split_once(": ") else { return };
        if rest.trim() == "USER_INPUT" {
            self.inputs.insert(placeholder.trim().into());
        }
        let Some((word, target)) = rest.split_once(" target='") else { return };
        // PyTorch does not escape quotes. The quoted text ends at the last quote before other words.
        let target = target.split(" persistent=").next().unwrap_or(target).trim_end();
        let name = target.strip_suffix('\'').filter(|name| !name.is_empty());
        if let (Some(kind), Some(name)) = (kind(word.trim()), name) {
            self.placeholders.insert(placeholder.trim().into(), name.into());
            self.kinds.insert(name.into(), kind);
        }
    }

    /// Returns true if the file has no record.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Kind of an initializer. `None` if it is not in the record.
    pub fn kind(&self, initializer: &str) -> Option<SourceKind> {
        if let Some(kind) = self.kinds.get(initializer) {
            return Some(*kind);
        }
        self.folded.get(initializer)?;
        match self.parameters(initializer).is_empty() {
            false => Some(SourceKind::Parameter),
            // Optimizers drop the signature. Without it, a source that no longer exists as a tensor may have been a
            // parameter.
            true => (!self.placeholders.is_empty()).then_some(SourceKind::Constant),
        }
    }

    /// Source parameters that an initializer is, or from which it was folded.
    pub fn parameters(&self, initializer: &str) -> Vec<&str> {
        let is_parameter = |name: &str| self.kinds.get(name) == Some(&SourceKind::Parameter);
        if let Some(folded) = self.folded.get(initializer) {
            return folded.iter().map(String::as_str).filter(|name| is_parameter(name)).collect();
        }
        self.kinds
            .get_key_value(initializer)
            .filter(|(name, _)| is_parameter(name))
            .map(|(name, _)| name.as_str())
            .into_iter()
            .collect()
    }

    /// Parameters, buffers and constants of the source from which an initializer was folded, with their kinds.
    pub fn sources(&self, initializer: &str) -> Vec<(&str, SourceKind)> {
        let folded = self.folded.get(initializer).map_or(&[][..], Vec::as_slice);
        folded.iter().filter_map(|name| Some((name.as_str(), *self.kinds.get(name)?))).collect()
    }

    /// The only parameter from which an initializer was folded.
    pub fn folded_from(&self, initializer: &str) -> Option<&str> {
        self.folded.get(initializer)?;
        <[&str; 1]>::try_from(self.parameters(initializer)).ok().map(|[name]| name)
    }

    /// Returns true if an initializer was computed from parameters, and not only reordered. Examples are a weight norm,
    /// a standardised weight, and a small network over constants.
    pub fn is_computed(&self, graph: &GraphProto, initializer: &str) -> bool {
        let Some(folded) = self.folded.get(initializer) else { return false };
        let parameters = self.parameters(initializer);
        let [parameter] = parameters.as_slice() else { return parameters.len() > 1 };
        let stem = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_').to_string();
        let stored = self.stored.get(initializer).map_or(initializer, String::as_str);
        let own = stem(stored.rsplit('/').next().unwrap_or(stored));
        let is_product = || {
            let readers = graph
                .node
                .iter()
                .filter(|node| node.op_type == "Add" && node.input.iter().any(|input| input == initializer));
            readers.filter_map(call).any(|call| {
                let weight = call.arguments.get(1).and_then(|argument| self.source(argument));
                call.target == "aten.linear.default" && weight == Some(parameter)
            })
        };
        stored != *parameter && !MOVES.contains(&&*own)
            || folded.iter().any(|name| COMPUTES.contains(&&*stem(name)))
            || self.is_standardised(folded)
            || is_product()
    }

    /// Returns true for a weight that the exporter normalised. A decomposed batch norm of weights leaves many numbered
    /// values, and the selection of its first result.
    fn is_standardised(&self, folded: &[String]) -> bool {
        let starts = |prefix: &str| folded.iter().filter(|name| name.starts_with(prefix)).count();
        starts("getitem") > 0 && starts("val_") >= 16
    }

    /// Name in the source for an argument that is a parameter, a buffer or a constant.
    pub fn source(&self, argument: &str) -> Option<&str> {
        self.placeholders.get(argument).map(String::as_str)
    }

    /// Returns true if `argument` is an input of the exported program.
    pub fn is_input(&self, argument: &str) -> bool {
        self.inputs.contains(argument)
    }

    /// Source parameters without an initializer in `graph`, directly or folded, in alphabetical order. The first list
    /// has those that a call names, the second the others.
    pub fn lost(&self, graph: &GraphProto) -> [Vec<&str>; 2] {
        let mut held: HashSet<&str> = HashSet::new();
        for tensor in &graph.initializer {
            held.insert(&tensor.name);
            held.extend(self.parameters(&tensor.name));
        }
        let parameters =
            self.kinds.iter().filter(|(_, kind)| **kind == SourceKind::Parameter).map(|(name, _)| name.as_str());
        let mut lost: Vec<&str> = parameters.filter(|name| !held.contains(name)).collect();
        lost.sort_unstable();
        let calls = graph.node.iter().filter_map(call).flat_map(|call| call.arguments);
        let named: HashSet<&str> = calls.filter_map(|argument| self.source(argument)).collect();
        let (named, others) = lost.into_iter().partition(|name| named.contains(name));
        [named, others]
    }

    /// Returns true if `name` of the source is a parameter.
    pub fn is_parameter(&self, name: &str) -> bool {
        self.kinds.get(name) == Some(&SourceKind::Parameter)
    }
}

/// Text of the call to which `node` belongs. The nodes of one call have the same text.
pub fn call_text(node: &NodeProto) -> Option<&str> {
    value(&node.metadata_props, CALL)
}

/// Call to which `node` belongs.
pub fn call(node: &NodeProto) -> Option<SourceCall<'_>> {
    let text = call_text(node)?;
    let target = text.split_once("[target=")?.1.split_once(']')?.0;
    let target = target.strip_prefix("torch.ops.").unwrap_or(target);
    let arguments = text.split_once("(args = ")?.1;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let arguments = arguments.split('%').skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or(rest));
    Some(SourceCall { target, arguments: arguments.collect() })
}

fn kind(word: &str) -> Option<SourceKind> {
    match word {
        "PARAMETER" => Some(SourceKind::Parameter),
        "BUFFER" | "CONSTANT_TENSOR" => Some(SourceKind::Constant),
        _ => None,
    }
}

/// Strings of a list in Python syntax: `['a', "b"]`.
fn quoted(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let open = rest.find(['\'', '"'])?;
        let quote = char::from(rest.as_bytes()[open]);
        let (name, after) = rest[open + 1..].split_once(quote)?;
        rest = after;
        Some(name)
    })
}

fn value<'a>(entries: &'a [StringStringEntryProto], key: &str) -> Option<&'a str> {
    entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
}
