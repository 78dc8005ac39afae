//! What is trained: one rule, with a reason for each initializer that `damper inspect` prints.
//!
//! A float32 initializer that an output depends on is a parameter, unless exporters write it as a constant: the ones and
//! zeros of a decomposed GroupNorm, exponents and other settings, scalars with an exporter's name or with several
//! readers, masks, outputs of `Constant` nodes. `--train` and `--freeze` override.
//!
//! Exporters merge initializers of equal value. The TorchScript exporter leaves an `Identity` under the lost name: each
//! alias is its own parameter. The dynamo exporter leaves no trace: an initializer of rank 1 or more whose elements are
//! all equal (a norm's scale of ones) and that several nodes read is a parameter for each node, unless the nodes share
//! another weight and are thus one layer applied twice.

pub(crate) mod glob;
mod reads;

use std::collections::{HashMap, HashSet};

use super::{GraphError, GraphOptions, Tensor};
use crate::onnx::pb::{GraphProto, ModelProto};
use crate::onnx::{DType, attr_tensor, decode_tensor, node_name, split_name};

use reads::Reads;

/// An initializer as `damper inspect` prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initializer {
    /// Its name, or the alias or split name under which it is a parameter of its own.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Whether it is trained.
    pub trained: bool,
    /// Why, or why not.
    pub reason: String,
}

/// Every initializer of `model`, whether it is trained, and why. A list without a trained entry is no error here.
///
/// # Errors
/// [`GraphError`] where a pattern of `options` matches nothing, or a tensor cannot be read.
pub fn initializers(model: &ModelProto, options: &GraphOptions) -> Result<Vec<Initializer>, GraphError> {
    let empty = GraphProto::default();
    let decisions = decide(model.graph.as_ref().unwrap_or(&empty), options)?;
    let named = decisions.floats.into_iter().map(|float| Initializer {
        name: float.name,
        shape: float.tensor.shape,
        trained: float.trained,
        reason: float.reason,
    });
    Ok(named.chain(decisions.others).collect())
}

/// A float initializer, alias or split, or a trained `Constant`.
pub(super) struct Float {
    pub name: String,
    pub tensor: Tensor,
    pub trained: bool,
    pub reason: String,
}

/// What is decided about a model's initializers.
pub(super) struct Decisions {
    pub floats: Vec<Float>,
    /// Initializers of other types.
    pub others: Vec<Initializer>,
    /// (node, the name it reads) to the name of the parameter split off for it.
    pub splits: HashMap<(usize, String), String>,
    /// Nodes that an output depends on.
    pub live: HashSet<usize>,
}

/// How a candidate came about.
enum Source<'a> {
    Initializer,
    Alias(&'a str),
    Split(&'a str),
    Constant,
}

pub(super) fn decide(graph: &GraphProto, options: &GraphOptions) -> Result<Decisions, GraphError> {
    let reads = Reads::of(graph);
    let model = |error: &dyn std::fmt::Display| GraphError::Model(error.to_string());
    let mut tensors: HashMap<&str, Tensor> = HashMap::new();
    let mut others = Vec::new();
    for proto in &graph.initializer {
        let name = proto.name.as_str();
        let dtype = DType::from_onnx(proto.data_type);
        if dtype.as_ref().is_ok_and(|dtype| dtype.is_float()) {
            tensors.insert(name, decode_tensor(proto).map_err(|error| model(&error))?);
            continue;
        }
        let shape = proto.dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        let dtype = dtype.map_or_else(|name| name, |dtype| dtype.name().to_string());
        let reason = format!("not trained: {dtype}, not a float tensor");
        others.push(Initializer { name: name.to_string(), shape, trained: false, reason });
    }
    let uniform: HashSet<&str> = tensors.iter().filter(|(_, t)| is_uniform(t)).map(|(name, _)| *name).collect();

    let mut floats = Vec::new();
    let mut splits = HashMap::new();
    let mut add = |name: &str, tensor: &Tensor, source: Source<'_>| {
        let verdict = |called: &str, source: &Source<'_>, read_by: &[(usize, usize)]| {
            let (trained, mut reason) = judge(graph, &reads, options, called, tensor, source, read_by);
            if trained {
                reason.push_str(&remarks(called, tensor, source, &tensors));
            }
            Float { name: called.to_string(), tensor: tensor.clone(), trained, reason }
        };
        let read_by = reads.of_name(name);
        let mut layers = reads::layers(graph, read_by, name, &tensors, &uniform).into_iter();
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
        // Other constants stay what they are; only `--train` makes one a parameter.
        if !glob::any(&options.train, name) {
            continue;
        }
        let value = attr_tensor(&node.attribute, "value").and_then(|proto| decode_tensor(proto).ok());
        if let Some(tensor) = value.filter(|tensor| tensor.data.dtype().is_float()) {
            add(name, &tensor, Source::Constant);
        }
    }
    for (flag, patterns) in [("--train", &options.train), ("--freeze", &options.freeze)] {
        for pattern in patterns {
            let one = [pattern.clone()];
            let known = floats.iter().any(|float| glob::any(&one, &float.name))
                || others.iter().any(|other| glob::any(&one, &other.name));
            if !known {
                return Err(GraphError::Model(format!(
                    "{flag} '{pattern}' matches no initializer; damper inspect lists their names"
                )));
            }
        }
    }
    Ok(Decisions { floats, others, splits, live: reads.live })
}

fn is_uniform(tensor: &Tensor) -> bool {
    let equal = |data: &[f32]| data.windows(2).all(|pair| pair[0] == pair[1]);
    tensor.as_f32().is_some_and(|data| !data.is_empty() && equal(data))
}

/// Whether the candidate is trained, and why.
fn judge(
    graph: &GraphProto,
    reads: &Reads<'_>,
    options: &GraphOptions,
    name: &str,
    tensor: &Tensor,
    source: &Source<'_>,
    read_by: &[(usize, usize)],
) -> (bool, String) {
    let frozen = |why: &str| (false, format!("not trained: {why}"));
    let Some(data) = tensor.as_f32() else {
        return frozen("float64, and only float32 is trained");
    };
    let Some(&first) = read_by.first() else {
        return frozen("no output depends on it");
    };
    if data.is_empty() {
        return frozen("it has no elements");
    }
    if let Some(pattern) = options.freeze.iter().find(|pattern| glob::any(std::slice::from_ref(pattern), name)) {
        return frozen(&format!("--freeze '{pattern}'"));
    }
    if let Some(pattern) = options.train.iter().find(|pattern| glob::any(std::slice::from_ref(pattern), name)) {
        return (true, format!("trained: --train '{pattern}'"));
    }
    if matches!(source, Source::Constant) {
        return frozen("output of a Constant node");
    }
    let (node, slot) = reads.end_of(graph, first);
    let reader = &graph.node[node];
    let called = node_name(reader, node);
    let role = reads::role(&reader.op_type, slot);
    if read_by.iter().all(|&(node, slot)| reads.is_decomposed_group_norm(graph, node, slot) && has_only(data, slot)) {
        return frozen(&format!("constant {role} of the InstanceNormalization that a GroupNorm is exported as"));
    }
    if read_by.iter().all(|&(node, slot)| reads::is_setting(&graph.node[node].op_type, slot)) {
        return frozen(&format!("{role} of {} '{called}', not a weight", reader.op_type));
    }
    if tensor.shape.is_empty() && read_by.len() > 1 {
        return frozen(&format!(
            "a scalar with {} readers, which exporters merge from equal constants; --train '{name}' if it is one weight",
            read_by.len()
        ));
    }
    if tensor.shape.is_empty() && reads::is_exporters_name(name) {
        return frozen(&format!("a scalar that the exporter named; --train '{name}' if it is a weight"));
    }
    if data.iter().any(|x| x.is_infinite() || *x <= -1e9) {
        return frozen("a mask: it holds infinities or numbers below -1e9");
    }
    (true, format!("trained: {role} of {} '{called}'", reader.op_type))
}

/// All ones as a scale (slot 1), all zeros as a bias (slot 2).
fn has_only(data: &[f32], slot: usize) -> bool {
    let constant = if slot == 1 { 1.0 } else { 0.0 };
    data.iter().all(|&x| x == constant)
}

/// What a user should know about a trained candidate.
fn remarks(name: &str, tensor: &Tensor, source: &Source<'_>, tensors: &HashMap<&str, Tensor>) -> String {
    let mut text = String::new();
    match source {
        Source::Alias(base) if is_uniform(tensor) => {
            text += &format!("; the exporter merged it with '{base}', of equal value");
        }
        Source::Alias(base) => {
            text += &format!(
                "; the exporter merged it with '{base}': if they are one tensor in the source (tied), note that they \
                 are trained apart here"
            );
        }
        Source::Split(base) => text += &format!("; the exporter merged it into '{base}', of equal value"),
        Source::Initializer | Source::Constant => {}
    }
    if let Some(twin) = twin(name, tensor, tensors) {
        text += &format!(
            "; its values are those of '{twin}' transposed: if they are one tensor in the source (tied), note that \
             they are trained apart here"
        );
    }
    if is_uniform(tensor) && reads::is_exporters_name(name) {
        text += "; the exporter named it, and its values are all equal: --freeze it if it is a constant";
    }
    text
}

/// Another matrix that is the transpose of this one, and no constant.
fn twin<'a>(name: &str, tensor: &Tensor, tensors: &HashMap<&'a str, Tensor>) -> Option<&'a str> {
    let (&[rows, columns], Some(data)) = (tensor.shape.as_slice(), tensor.as_f32()) else {
        return None;
    };
    if is_uniform(tensor) {
        return None;
    }
    let mut twins: Vec<&str> = tensors
        .iter()
        .filter(|(other, t)| **other != name && t.shape == [columns, rows])
        .filter(|(_, t)| {
            let Some(other) = t.as_f32() else {
                return false;
            };
            (0..rows).all(|r| (0..columns).all(|c| data[r * columns + c] == other[c * rows + r]))
        })
        .map(|(other, _)| *other)
        .collect();
    twins.sort_unstable();
    twins.first().copied()
}
