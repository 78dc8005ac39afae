//! Selects the trained initializers by one rule, with a reason for each that `damper inspect` prints.
//!
//! A float32 initializer that an output depends on is a parameter, unless exporters write it as a constant. Exporters
//! write a scale of 1 and a bias of 0 for a norm without weights and for a decomposed GroupNorm. Other constants are
//! exponents and other settings, masks, sines and cosines, outputs of `Constant` nodes, and scalars with an exporter's
//! name or with several readers. So is anything that only shifts or scales an input, or that weights the loss (see
//! `data_flow`). The rows of a learned position embedding, looked up with constant indices and folded, are a parameter,
//! like the embedding matrix in the source. An initializer that reaches outputs only through comparisons, integers,
//! conditions and steps is never a parameter. It has no gradient, so only noise would change it.
//!
//! Exporters merge initializers of equal value. The TorchScript exporter leaves an `Identity` under each lost name, and
//! each such alias is a separate parameter. The dynamo exporter leaves no trace. An initializer of several equal
//! elements (a norm's initial scale) with several readers becomes a parameter for each reader. The exception is readers
//! that share another weight: they are one layer applied twice. Any other shared initializer is one parameter. Copies
//! from constant folding are read from the original again (see `ties`). [`GraphOptions`] override both rules.

mod by_record;
mod constants;
mod data_flow;
mod decoded;
mod float;
pub mod glob;
mod notes;
mod patterns;
pub(super) mod quantized;
mod reads;
mod ties;

use super::{GraphError, GraphOptions, Tensor};
use crate::pb::{GraphProto, NodeProto};
use crate::source::{self, ExportRecord};
use crate::{DType, SettingError, attr_tensor, decode_tensor, node_name, split_name};
use std::collections::{HashMap, HashSet};

use constants::Mask;
use data_flow::{Constant, DataFlow};
use decoded::{decoded, is_uniform};
pub(super) use float::Float;
use float::Note;
use reads::Reads;
pub use ties::retie;
pub(super) use ties::{find as ties, retie_graph};

/// Initializer as `damper inspect` prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initializer {
    /// Its name, or the alias or split name under which it is a separate parameter.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// True if it is trained.
    pub trained: bool,
    /// Reason for the decision.
    pub reason: String,
}

/// Decisions on a model's initializers.
pub(super) struct Decisions {
    pub floats: Vec<Float>,
    /// Initializers of other types.
    pub others: Vec<Initializer>,
    /// Maps (node, name it reads) to the name of the parameter split off for it.
    pub splits: HashMap<(usize, String), String>,
    /// Nodes that an output depends on.
    pub live: HashSet<usize>,
    /// Warnings, one line each.
    pub warnings: Vec<String>,
}

/// Origin of a candidate.
enum Source<'a> {
    Initializer,
    Alias(&'a str),
    Split(&'a str),
    Constant,
}

pub(super) fn decide(graph: &GraphProto, options: &GraphOptions) -> Result<Decisions, GraphError> {
    let options = &patterns::of_source(graph, options);
    let record = ExportRecord::of(graph);
    let reads = Reads::of(graph, &record);
    let mut tensors = decoded(graph)?;
    let weights = weights_of_integers(graph, &reads)?;
    tensors.extend(weights.iter().map(|(name, read)| (*name, read.tensor.clone())));
    let flow = DataFlow::of(graph, &reads, &tensors);
    let others = others(graph, &tensors);
    let uniform: HashSet<&str> = tensors.iter().filter(|(_, t)| is_uniform(t)).map(|(name, _)| *name).collect();

    let renamed: HashSet<&str> = source::stored(graph).filter(|_| record.is_empty()).map(|(name, _)| name).collect();
    let judge =
        Judge { graph, record: &record, renamed: &renamed, reads: &reads, flow: &flow, options, tensors: &tensors };
    let mut floats = Vec::new();
    let mut splits = HashMap::new();
    let mut add = |name: &str, tensor: &Tensor, source: Source<'_>| {
        let verdict = |called: &str, source: &Source<'_>, read_by: &[(usize, usize)]| {
            let (trained, mut reason, mut note) = judge.judge(Candidate { name: called, tensor, source, read_by });
            if trained {
                reason.push_str(&judge.remarks(called, tensor, source, read_by));
                note = note.or_else(|| judge.merged(called, tensor, source, read_by));
            }
            Float { name: called.to_string(), tensor: tensor.clone(), quantized: None, trained, reason, note }
        };
        let mut layers = reads.layers(graph, name, &tensors, &uniform, options).into_iter();
        let first = layers.next().unwrap_or_default();
        let mut verdicts = vec![verdict(name, &source, &first)];
        let mut names = Vec::new();
        for layer in layers {
            let node = layer[0].0;
            let split = split_name(name, &node_name(&graph.node[node], node));
            verdicts.push(verdict(&split, &Source::Split(name), &layer));
            names.push(((node, name.to_string()), split));
        }
        // Constants may stay shared.
        if verdicts.iter().any(|float| float.trained) {
            splits.extend(names);
            floats.extend(verdicts);
        } else {
            floats.extend(verdicts.into_iter().take(1));
        }
    };
    for proto in &graph.initializer {
        if let Some(tensor) = tensors.get(proto.name.as_str()) {
            add(&proto.name, tensor, Source::Initializer);
        }
    }
    for (alias, base) in &reads.aliases {
        if let Some(tensor) = tensors.get(base) {
            add(alias, tensor, Source::Alias(base));
        }
    }
    for node in graph.node.iter().filter(|node| node.op_type == "Constant") {
        let Some(name) = node.output.first() else {
            continue;
        };
        // Other constants stay constants. Only the options `train` and `only` can make them parameters.
        if !glob::any(&options.train, name) && !glob::any(&options.only, name) {
            continue;
        }
        let value = attr_tensor(&node.attribute, "value").and_then(|proto| decode_tensor(proto).ok());
        if let Some(tensor) = value.filter(|tensor| tensor.data.dtype().is_float()) {
            add(name, &tensor, Source::Constant);
        }
    }
    for (name, read) in weights {
        let quantized::Read { tensor, quantized, reason } = read;
        floats.push(Float { name: name.into(), tensor, quantized, trained: false, reason, note: None });
    }
    note_equal(&mut floats, |name| judge.is_invented(name));
    check_settings(options, &floats, &others)?;
    let warnings = if options.parameter.is_empty() { notes::warnings(graph, &record, &floats) } else { Vec::new() };
    Ok(Decisions { floats, others, splits, live: reads.live, warnings })
}

/// Notes trained weights of unknown origin that have the same values as another weight.
fn note_equal(floats: &mut [Float], is_unknown: impl Fn(&str) -> bool) {
    let unknown = floats.iter().filter(|float| float.trained && is_unknown(&float.name));
    let weights: Vec<(&str, &Tensor)> = unknown.map(|float| (float.name.as_str(), &float.tensor)).collect();
    let equal: HashSet<String> = ties::equal(&weights).into_iter().map(String::from).collect();
    for float in floats.iter_mut().filter(|float| equal.contains(&float.name)) {
        float.note = float.note.or(Some(Note::Equal));
    }
}

/// Initializers that are not float tensors.
fn others(graph: &GraphProto, tensors: &HashMap<&str, Tensor>) -> Vec<Initializer> {
    let mut others = Vec::new();
    for proto in &graph.initializer {
        let name = proto.name.as_str();
        let dtype = DType::from_onnx(proto.data_type);
        if tensors.contains_key(name) {
            continue;
        }
        let shape = proto.dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        let dtype = dtype.map_or_else(|name| name, |dtype| dtype.name().to_string());
        let reason = format!("not trained: {dtype}, not a float tensor");
        others.push(Initializer { name: name.to_string(), shape, trained: false, reason });
    }
    others
}

/// Fails if a setting matches nothing, or if two settings contradict each other.
fn check_settings(options: &GraphOptions, floats: &[Float], others: &[Initializer]) -> Result<(), GraphError> {
    for (setting, patterns) in [("only", &options.only), ("train", &options.train), ("freeze", &options.freeze)] {
        for pattern in patterns {
            let one = [pattern.clone()];
            let known = floats.iter().any(|float| glob::any(&one, &float.name))
                || others.iter().any(|other| glob::any(&one, &other.name));
            if !known {
                let problem = "matches no initializer; damper inspect lists their names";
                return Err(SettingError::new(setting, format!("'{pattern}'"), problem).into());
            }
        }
    }
    if let (false, true, Some(pattern)) =
        (options.parameter.is_empty(), options.adapters.is_empty(), options.train.first())
    {
        let problem = "`parameter` names all that is trained; leave one of them out";
        return Err(SettingError::new("train", format!("'{pattern}'"), problem).into());
    }
    for name in &options.parameter {
        if floats.iter().all(|float| float.name != *name) {
            let problem = "is no float initializer; damper inspect lists their names";
            return Err(SettingError::new("parameter", format!("'{name}'"), problem).into());
        }
    }
    for pattern in &options.train {
        let one = std::slice::from_ref(pattern);
        let mut matching = floats.iter().filter(|float| glob::any(one, &float.name)).peekable();
        if matching.peek().is_some() && matching.all(|float| glob::any(&options.freeze, &float.name)) {
            let problem =
                format!("`freeze` wins over it, so nothing that it matches is trained; use `only` '{pattern}' alone");
            return Err(SettingError::new("train", format!("'{pattern}'"), problem).into());
        }
    }
    Ok(())
}

/// Weights stored as integers, each under the name of the node output with its float values.
fn weights_of_integers<'a>(
    graph: &'a GraphProto,
    reads: &Reads<'_>,
) -> Result<Vec<(&'a str, quantized::Read)>, GraphError> {
    let mut weights = Vec::new();
    for (index, node) in graph.node.iter().enumerate() {
        let is_read = node.op_type == "DequantizeLinear" && reads.live.contains(&index);
        let (true, Some(output)) = (is_read, node.output.first()) else { continue };
        match quantized::read(graph, node) {
            None => {}
            Some(Ok(read)) => weights.push((output.as_str(), read)),
            Some(Err(reason)) => {
                let (node, op) = (node_name(node, index), node.op_type.clone());
                return Err(GraphError::Invalid { node, op, reason });
            }
        }
    }
    Ok(weights)
}

/// True if a candidate is trained, with the reason and an optional warning.
type Judged = (bool, String, Option<Note>);

fn frozen(why: &str) -> Judged {
    (false, format!("not trained: {why}"), None)
}

/// Float tensor that may be trained.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    name: &'a str,
    tensor: &'a Tensor,
    source: &'a Source<'a>,
    /// Readers: nodes and input slots.
    read_by: &'a [(usize, usize)],
}

impl<'a> Candidate<'a> {
    /// Name of the initializer from which it was split, or its own name.
    fn split_from(&self) -> &'a str {
        if let Source::Split(base) = self.source { base } else { self.name }
    }
}

/// Model and settings for the decisions on candidates.
struct Judge<'a> {
    graph: &'a GraphProto,
    record: &'a ExportRecord,
    /// Initializers that were unnamed in the export. They are named after the modules that read them.
    renamed: &'a HashSet<&'a str>,
    reads: &'a Reads<'a>,
    flow: &'a DataFlow<'a>,
    options: &'a GraphOptions,
    tensors: &'a HashMap<&'a str, Tensor>,
}

impl Judge<'_> {
    /// Returns true if the exporter generated the name of the initializer.
    fn is_invented(&self, name: &str) -> bool {
        source::is_exporters_name(name) || self.renamed.contains(name)
    }

    /// Decides if the candidate is trained, with the reason and warnings.
    fn judge(&self, candidate: Candidate<'_>) -> Judged {
        let Self { graph, reads, .. } = *self;
        let Candidate { name, tensor, read_by, .. } = candidate;
        let Some(data) = tensor.as_f32() else {
            return frozen("float64, and only float32 is trained");
        };
        let Some(&first) = read_by.first() else {
            return frozen("no output depends on it");
        };
        if data.is_empty() {
            return frozen("it has no elements");
        }
        // Without a gradient, only noise would change it.
        if read_by.iter().all(|&(node, slot)| !reads.returns_gradients(graph, node, slot)) {
            let (node, slot) = first;
            let reader = &graph.node[node];
            let called = node_name(reader, node);
            let by = if constants::stops_gradients(reader, slot) { "takes" } else { "and what follows it take" };
            return frozen(&format!("{} '{called}' {by} no gradient back", reader.op_type));
        }
        if let Some(judged) = self.asked(name).or_else(|| self.by_record(candidate)) {
            return judged;
        }
        // The reader that names a tied weight, not the transpose or reshape before another reader.
        let own = read_by.iter().find(|read| !reads::is_exchange(&graph.node[read.0]));
        let (node, slot) = reads.end_of(graph, *own.unwrap_or(&first));
        let reader = &graph.node[node];
        let called = node_name(reader, node);
        let role = reads::role(&reader.op_type, slot);
        if let Some(judged) = self.by_uses(candidate, data, role, reader, &called) {
            return judged;
        }
        self.by_values(candidate, data).unwrap_or_else(|| {
            let doubt = self.flow.is_doubtful(read_by).then_some(Note::Doubtful);
            (true, format!("trained: {role} of {} '{called}'", reader.op_type), doubt)
        })
    }

    /// Decides by the settings, if they name the candidate or all others.
    fn asked(&self, name: &str) -> Option<Judged> {
        let options = self.options;
        let is_adapter = options.adapters.iter().any(|adapter| adapter == name);
        if !options.parameter.is_empty() && !is_adapter {
            return Some(match options.parameter.iter().any(|given| given == name) {
                true if options.adapters.is_empty() || glob::any(&options.train, name) => {
                    (true, "trained: `parameter` names it".into(), None)
                }
                true => frozen("adapters are trained instead"),
                false => frozen("`parameter` does not name it"),
            });
        }
        if !options.only.is_empty() {
            let pattern = options.only.iter().find(|pattern| glob::any(std::slice::from_ref(pattern), name));
            return Some(match pattern {
                Some(pattern) => (true, format!("trained: `only` '{pattern}'"), None),
                None => frozen("`only` does not name it"),
            });
        }
        if let Some(pattern) = options.freeze.iter().find(|pattern| glob::any(std::slice::from_ref(pattern), name)) {
            return Some(frozen(&format!("`freeze` '{pattern}'")));
        }
        if let Some(pattern) = options.train.iter().find(|pattern| glob::any(std::slice::from_ref(pattern), name)) {
            return Some((true, format!("trained: `train` '{pattern}'"), None));
        }
        if is_adapter {
            return Some((true, "trained: a low-rank adapter".into(), None));
        }
        if !options.adapters.is_empty() {
            return Some(frozen("adapters are trained instead"));
        }
        None
    }

    /// Decides by the candidate's readers, if none of them uses it as a weight.
    fn by_uses(
        &self,
        candidate: Candidate<'_>,
        data: &[f32],
        role: &str,
        reader: &NodeProto,
        called: &str,
    ) -> Option<Judged> {
        let Self { graph, reads, .. } = *self;
        let Candidate { name, tensor, source, read_by } = candidate;
        if matches!(source, Source::Constant) {
            return Some(frozen("output of a Constant node"));
        }
        let all = |holds: &dyn Fn(usize, usize) -> bool| read_by.iter().all(|&(node, slot)| holds(node, slot));
        let unset = |node: usize, slot: usize| constants::is_unset(graph, (node, slot), data);
        if all(&|node, slot| unset(node, slot) && reads.is_decomposed_group_norm(graph, node, slot)) {
            return Some(frozen(&format!(
                "constant {role} of the InstanceNormalization that a GroupNorm is exported as"
            )));
        }
        let invented = self.is_invented(candidate.split_from());
        if invented && all(&unset) {
            return Some(frozen(&format!("constant {role} of {} '{called}', which has no weights", reader.op_type)));
        }
        if all(&|node, slot| reads::is_setting(&graph.node[node].op_type, slot)) {
            return Some(frozen(&format!("{role} of {} '{called}', not a weight", reader.op_type)));
        }
        let is_layers = || read_by.iter().any(|&(node, slot)| slot > 0 && reads::is_layer(&graph.node[node].op_type));
        if data.len() == 1 && invented && !is_layers() {
            return Some(frozen(&format!(
                "a single number that the exporter named; `train` '{name}' if it is a weight"
            )));
        }
        // A name with a dot belongs to a module's attribute.
        if tensor.shape.is_empty() && read_by.len() > 1 && !name.contains('.') {
            return Some(frozen(&format!(
                "a scalar with {} readers, which exporters merge from equal constants; `train` '{name}' if it is one weight",
                read_by.len()
            )));
        }
        None
    }

    /// Decides by the candidate's values, if they cannot be those of a weight.
    fn by_values(&self, candidate: Candidate<'_>, data: &[f32]) -> Option<Judged> {
        let Self { graph, flow, tensors, .. } = *self;
        let Candidate { name, tensor, read_by, .. } = candidate;
        let all = |holds: &dyn Fn(usize, usize) -> bool| read_by.iter().all(|&(node, slot)| holds(node, slot));
        // The weight of a layer is not a mask, whatever its values.
        if all(&|node, _| !reads::is_layer(&graph.node[node].op_type)) {
            let why = "a mask: it holds infinities or numbers far below 0";
            match constants::mask(&tensor.shape, data) {
                Mask::Certain => return Some(frozen(why)),
                Mask::Doubtful => {
                    return Some((
                        false,
                        format!("not trained: {why}; `train` '{name}' if it is a weight"),
                        Some(Note::Mask),
                    ));
                }
                Mask::Damaged | Mask::No => {}
            }
        }
        if let Some(why) = constants::written(tensor, data) {
            return Some(frozen(why));
        }
        // A damaged weight is an error, and is not frozen.
        let node = flow.unexplained(name, tensor, read_by).filter(|_| data.iter().all(|x| x.is_finite()));
        if let Some(node) = node {
            let why = format!(
                "{node} adds it to scores or outputs, and it is no layer's bias; `train` '{name}' if it is a weight"
            );
            return Some((false, format!("not trained: {why}"), Some(Note::Unexplained)));
        }
        let beside = tensors.iter().filter(|(other, t)| **other != name && t.shape == tensor.shape);
        if self.is_invented(candidate.split_from())
            && !is_uniform(tensor)
            && beside.filter_map(|(_, t)| t.as_f32()).any(|other| constants::is_rotary(data, other))
        {
            return Some(frozen("a table of sines or cosines"));
        }
        match flow.constant(read_by, tensors) {
            Some(Constant::OfInput(node, input)) => {
                let why = format!(
                    "it only shifts or scales the input '{input}' ({node}); `train` '{name}' if it is a weight"
                );
                return Some((false, format!("not trained: {why}"), Some(Note::OfInput)));
            }
            Some(Constant::OfLoss(node, labels)) => {
                let why = format!(
                    "it weights the loss, which '{labels}' enters ({node}); `train` '{name}' if it is a parameter"
                );
                return Some((false, format!("not trained: {why}"), Some(Note::OfLoss)));
            }
            None => {}
        }
        None
    }

    /// Reports if the exporter merged a trained candidate with another, or may have.
    fn merged(&self, name: &str, tensor: &Tensor, source: &Source<'_>, read_by: &[(usize, usize)]) -> Option<Note> {
        let Self { graph, options, .. } = *self;
        let is_chosen =
            |name: &str| [&options.tie, &options.untie].into_iter().any(|patterns| glob::any(patterns, name));
        match source {
            Source::Split(base) => (!is_chosen(name) && !is_chosen(base)).then_some(Note::Merged),
            Source::Initializer => {
                let is_known = is_chosen(name) || self.is_shared_in_source(name, tensor, read_by);
                (!is_known && notes::is_shared(graph, read_by)).then_some(Note::Shared)
            }
            // An alias keeps its name in the source.
            Source::Alias(_) | Source::Constant => None,
        }
    }

    /// Warnings about a trained candidate.
    fn remarks(&self, name: &str, tensor: &Tensor, source: &Source<'_>, read_by: &[(usize, usize)]) -> String {
        let Self { graph, .. } = *self;
        let mut text = String::new();
        let (copies, nodes): (HashSet<usize>, HashSet<usize>) =
            read_by.iter().map(|read| read.0).partition(|&node| reads::is_exchange(&graph.node[node]));
        for copy in copies.iter().flat_map(|&node| &graph.node[node].output) {
            text += &format!("; tied to '{copy}'");
        }
        match source {
            Source::Alias(base) if is_uniform(tensor) => {
                text += &format!("; the exporter merged it with '{base}', of equal value");
            }
            Source::Alias(base) => {
                text +=
                    &format!("; the exporter merged it with '{base}', of equal values: `tie` '{name}' if they are one");
            }
            Source::Split(base) => text += &format!("; the exporter merged it into '{base}', of equal value"),
            Source::Initializer if nodes.len() > 1 && !self.is_shared_in_source(name, tensor, read_by) => {
                text +=
                    &format!("; {} nodes read it: `untie` '{name}' if they are layers with equal values", nodes.len());
            }
            Source::Initializer | Source::Constant => {}
        }
        if is_uniform(tensor) && self.is_invented(name) {
            text += "; the exporter named it, and its values are all equal: `freeze` it if it is a constant";
        }
        text
    }
}
