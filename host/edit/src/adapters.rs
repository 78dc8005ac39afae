//! LoRA: rewrites a model to have low-rank adapters next to the frozen weights of linear layers.
//!
//! ```text
//! y = x W          becomes   y = x W + s (x A) B        A: [in, r], random    B: [r, out], zeros    s = alpha / r
//! after training:            W ← W + s A B              rounded once, from f64
//! ```
//!
//! Source: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen, "LoRA", ICLR 2022. A weight is an initializer of two
//! axes. It must be the right operand of MatMul or input B of Gemm, directly or after a Transpose. All readers of a
//! weight share its adapter because they read the same `W + s A B`. With Gemm's `alpha`, the adapter's term is also
//! multiplied by it.
//!
//! The adapters of the weight `W` are the initializers `W.lora_A` and `W.lora_B`.

use damper_onnx::graph::glob;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto};
use damper_onnx::{
    DType, Extent, SettingError, TrainedError, decode_tensor, make_node, make_tensor_f32, make_value_info, node_name,
};
use damper_onnx::{attr_float, attr_int, attr_ints};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;

/// Maximum number of names in a message.
const LISTED: usize = 4;

/// Selection of the weights that get adapters.
#[derive(Clone, PartialEq, Debug)]
pub struct LoraOptions {
    /// Rank `r`.
    pub rank: NonZeroUsize,
    /// `alpha`. By default the rank, so that `s` is 1.
    pub alpha: Option<f32>,
    /// Patterns (`*`, `?`) of the weights.
    pub targets: Vec<String>,
}

/// Adapter of one weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adapter {
    /// Name of the weight.
    pub weight: String,
    /// Name of `A`, `[inputs, r]`.
    pub down: String,
    /// Name of `B`, `[r, outputs]`.
    pub up: String,
    /// Number of inputs, `in`.
    pub inputs: usize,
    /// Number of outputs, `out`.
    pub outputs: usize,
    /// True if the weight is stored as `[out, in]`.
    pub transposed: bool,
}

/// Adapters of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Adapters {
    /// Rank `r`.
    pub rank: usize,
    /// Scaling constant `alpha`.
    pub alpha: f32,
    /// Adapters, one per weight, in the order of the initializers.
    pub list: Vec<Adapter>,
    /// Warnings, one line each, such as matching tensors without an adapter.
    pub notes: Vec<String>,
}

impl Adapters {
    /// Scale `s = alpha / r` of the adapter term.
    #[must_use]
    pub fn scale(&self) -> f64 {
        f64::from(self.alpha) / self.rank as f64
    }

    /// Names of all `A` and `B`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.list.iter().flat_map(|adapter| [adapter.down.clone(), adapter.up.clone()]).collect()
    }

    /// Merged weights `W + s A B` by name, from the trained values `values`: `A`, `B`, and `W` if it is also trained.
    /// Otherwise `W` is that of `model`.
    ///
    /// # Errors
    ///
    /// Fails if a value is missing or has another length.
    pub fn merged(
        &self,
        model: &ModelProto,
        values: &[(&str, &[f32])],
    ) -> Result<Vec<(String, Vec<f32>)>, TrainedError> {
        let by_name: HashMap<&str, &[f32]> = values.iter().copied().collect();
        let merge = |adapter: &Adapter| {
            let Adapter { weight, inputs, outputs, .. } = adapter;
            let found = |name: &str, len: usize| {
                let values = by_name.get(name).copied().ok_or_else(|| TrainedError::Unknown(name.into()))?;
                check(name, len, values.len()).map(|()| values)
            };
            let (a, b) = (found(&adapter.down, inputs * self.rank)?, found(&adapter.up, self.rank * outputs)?);
            let mut merged = match by_name.get(weight.as_str()) {
                Some(values) => values.to_vec(),
                None => stored(model, weight).ok_or_else(|| TrainedError::Unknown(weight.clone()))?,
            };
            check(weight, inputs * outputs, merged.len())?;
            for (input, a) in a.chunks(self.rank).enumerate() {
                for output in 0..*outputs {
                    let products =
                        a.iter().enumerate().map(|(r, a)| f64::from(*a) * f64::from(b[r * outputs + output]));
                    let at = if adapter.transposed { output * inputs + input } else { input * outputs + output };
                    merged[at] = (f64::from(merged[at]) + self.scale() * products.sum::<f64>()) as f32;
                }
            }
            Ok((weight.clone(), merged))
        };
        self.list.iter().map(merge).collect()
    }
}

fn check(name: &str, expected: usize, found: usize) -> Result<(), TrainedError> {
    if expected == found { Ok(()) } else { Err(TrainedError::Length { name: name.into(), expected, found }) }
}

/// Values of the initializer `name`, or of the initializer for which it is an alias.
fn stored(model: &ModelProto, name: &str) -> Option<Vec<f32>> {
    let graph = model.graph.as_ref()?;
    let origin = origin(graph, name);
    let tensor = graph.initializer.iter().find(|tensor| tensor.name == origin)?;
    Some(decode_tensor(tensor).ok()?.as_f32()?.to_vec())
}

/// Initializer to which `name` resolves, through the `Identity` nodes with which exporters merge equal tensors.
fn origin<'a>(graph: &'a GraphProto, name: &'a str) -> &'a str {
    let mut name = name;
    // The number of nodes bounds the length of a chain.
    for _ in 0..graph.node.len() {
        let by = graph.node.iter().find(|node| node.op_type == "Identity" && node.output.iter().any(|out| out == name));
        match by.and_then(|node| node.input.first()) {
            Some(from) => name = from,
            None => break,
        }
    }
    name
}

/// Read of a weight by a linear layer.
#[derive(Clone, Copy, Debug)]
struct Read {
    node: usize,
    /// True if the layer multiplies by the weight's transpose.
    transposed: bool,
    /// Gemm's `alpha`.
    factor: f32,
}

/// Properties of a tensor.
#[derive(Default, Debug)]
struct Weight {
    /// Shape. Zeros if it does not have two axes.
    shape: [usize; 2],
    reads: Vec<Read>,
    /// Reason why it gets no adapter.
    refused: Option<String>,
}

/// Adds adapters to `model`, next to the weights that `options` selects. `initial` returns the values of an `A` for its
/// name, its inputs and its length.
///
/// # Errors
///
/// Fails if a pattern matches no linear weight, or if the alpha is not a finite number above 0. Also fails if an exact
/// name is not a linear weight, with the reason.
pub fn add_adapters(
    model: &ModelProto,
    options: &LoraOptions,
    initial: &dyn Fn(&str, usize, usize) -> Vec<f32>,
) -> Result<(ModelProto, Adapters), SettingError> {
    let rank = options.rank.get();
    let alpha = options.alpha.unwrap_or(rank as f32);
    if !(alpha.is_finite() && alpha > 0.0) {
        return Err(SettingError::new("lora_alpha", alpha, "must be a finite number above 0; twice the rank is usual"));
    }
    let listed = model.ir_version < 4;
    let empty = GraphProto::default();
    let (names, weights) = weights(model.graph.as_ref().unwrap_or(&empty));
    let (chosen, mut notes) = chosen(&options.targets, &names, &weights)?;
    let mut model = model.clone();
    let Some(graph) = model.graph.as_mut() else { return Err(no_target("", &names, &weights)) };
    let mut list = Vec::new();
    let mut taken = taken(graph);
    let mut new_nodes: BTreeMap<usize, Vec<NodeProto>> = BTreeMap::new();
    let mut tensors = Vec::new();
    for name in chosen {
        let weight = &weights[name];
        let transposed = weight.reads.first().is_some_and(|read| read.transposed);
        let [first, second] = weight.shape;
        let (inputs, outputs) = if transposed { (second, first) } else { (first, second) };
        let (down, up) = (format!("{name}.lora_A"), format!("{name}.lora_B"));
        if rank * (inputs + outputs) >= inputs * outputs {
            notes.push(format!(
                "`lora` {rank}: the adapter of '{name}' has {} numbers, and the weight itself {}; leave it out of `lora_target`, or name it \
                 with `train`",
                rank * (inputs + outputs),
                inputs * outputs
            ));
        }
        tensors.push(make_tensor_f32(&down, &[inputs, rank], &initial(&down, inputs, inputs * rank)));
        tensors.push(make_tensor_f32(&up, &[rank, outputs], &vec![0.0; rank * outputs]));
        for (index, read) in weight.reads.iter().enumerate() {
            let part =
                |part: &str| if index == 0 { format!("{name}.{part}") } else { format!("{name}.{part}_{index}") };
            let [scale, base, low, scaled, high] =
                ["lora_scale", "lora_base", "lora_low", "lora_scaled", "lora_high"].map(part);
            let factor = f64::from(alpha) / rank as f64 * f64::from(read.factor);
            tensors.push(make_tensor_f32(&scale, &[], &[factor as f32]));
            let node = &mut graph.node[read.node];
            let x = node.input[0].clone();
            let y = std::mem::replace(&mut node.output[0], base.clone());
            let of =
                |op: &str, inputs: [&str; 2], output: &str, name: &str| make_node(op, name, &inputs, &[output], vec![]);
            new_nodes.insert(
                read.node,
                vec![
                    of("MatMul", [&x, &down], &low, &low),
                    of("Mul", [&low, &scale], &scaled, &scaled),
                    of("MatMul", [&scaled, &up], &high, &high),
                    of("Add", [&base, &high], &y, &part("lora_sum")),
                ],
            );
            for made in [&scale, &base, &low, &scaled, &high] {
                claim(&mut taken, made)?;
            }
        }
        for made in [&down, &up] {
            claim(&mut taken, made)?;
        }
        list.push(Adapter { weight: name.to_owned(), down, up, inputs, outputs, transposed });
    }
    insert(graph, new_nodes);
    // Before IR version 4, an initializer is also an input.
    if listed {
        graph.input.extend(tensors.iter().map(|tensor| {
            let shape: Vec<Extent> = tensor.dims.iter().map(|&d| Extent::Fixed(d as usize)).collect();
            make_value_info(&tensor.name, DType::F32, &shape)
        }));
    }
    graph.initializer.extend(tensors);
    Ok((model, Adapters { rank, alpha, list, notes }))
}

/// Inserts nodes after the nodes at their indices.
fn insert(graph: &mut GraphProto, mut new: BTreeMap<usize, Vec<NodeProto>>) {
    let nodes = std::mem::take(&mut graph.node);
    for (at, node) in nodes.into_iter().enumerate() {
        graph.node.push(node);
        graph.node.extend(new.remove(&at).into_iter().flatten());
    }
}

/// Names of the graph.
fn taken(graph: &GraphProto) -> HashSet<String> {
    let values = graph.node.iter().flat_map(|node| node.output.iter().chain(&node.input));
    let tensors = graph.initializer.iter().map(|tensor| &tensor.name);
    values.chain(tensors).chain(graph.input.iter().map(|input| &input.name)).cloned().collect()
}

fn claim(taken: &mut HashSet<String>, name: &str) -> Result<(), SettingError> {
    if taken.insert(name.to_owned()) {
        return Ok(());
    }
    let problem =
        format!("the model has the name '{name}', which the adapters need; it has adapters already, or rename it");
    Err(SettingError::new("lora", "", problem))
}

/// Weights to adapt, in the order of the model, and notes on matches that cannot be adapted.
fn chosen<'a>(
    targets: &[String],
    names: &[&'a str],
    weights: &HashMap<&'a str, Weight>,
) -> Result<(Vec<&'a str>, Vec<String>), SettingError> {
    if targets.is_empty() {
        return Err(SettingError::new("lora", "", "needs the weights to adapt; add `lora_target` PATTERN"));
    }
    let mut notes = Vec::new();
    for target in targets {
        let matching: Vec<&str> =
            names.iter().copied().filter(|name| glob::any(std::slice::from_ref(target), name)).collect();
        let is_linear = |name: &&&str| weights.get(**name).is_some_and(|weight| weight.refused.is_none());
        if matching.iter().any(|name| is_linear(&name)) {
            // For a pattern, matches that are rejected although a linear layer reads them.
            notes.extend(matching.iter().filter_map(|name| {
                let weight = weights.get(name).filter(|weight| !weight.reads.is_empty())?;
                weight.refused.as_ref().map(|why| format!("`lora_target` '{target}': '{name}' gets no adapter: {why}"))
            }));
            continue;
        }
        return Err(match matching.first() {
            Some(name) => {
                let why = weights.get(name).and_then(|weight| weight.refused.clone()).unwrap_or_default();
                let problem = format!("'{name}' gets no adapter: {why}; {}", candidates(names, weights));
                SettingError::new("lora_target", format!("'{target}'"), problem)
            }
            None => no_target(target, names, weights),
        });
    }
    let is_chosen =
        |name: &&str| glob::any(targets, name) && weights.get(*name).is_some_and(|weight| weight.refused.is_none());
    notes.dedup();
    Ok((names.iter().copied().filter(is_chosen).collect(), notes))
}

fn no_target(target: &str, names: &[&str], weights: &HashMap<&str, Weight>) -> SettingError {
    let problem = format!("matches no weight of the model; {}", candidates(names, weights));
    SettingError::new("lora_target", format!("'{target}'"), problem)
}

/// Lists the valid names.
fn candidates(names: &[&str], weights: &HashMap<&str, Weight>) -> String {
    let is_linear = |name: &&&str| weights.get(**name).is_some_and(|weight| weight.refused.is_none());
    let linear: Vec<String> = names.iter().filter(is_linear).map(|name| format!("'{name}'")).collect();
    match linear.len() {
        0 => "the model has no linear weight (one that MatMul or Gemm reads)".into(),
        all if all > LISTED => format!("linear weights are {} and {} more", linear[..LISTED].join(", "), all - LISTED),
        _ => format!("linear weights are {}", linear.join(", ")),
    }
}

/// Float32 initializers and aliases of initializers, in order, with their properties.
fn weights(graph: &GraphProto) -> (Vec<&str>, HashMap<&str, Weight>) {
    let shapes: HashMap<&str, &[i64]> = graph.initializer.iter().map(|t| (t.name.as_str(), &t.dims[..])).collect();
    let floats = graph.initializer.iter().filter(|t| DType::from_onnx(t.data_type) == Ok(DType::F32));
    let mut names: Vec<&str> = floats.map(|tensor| tensor.name.as_str()).collect();
    let mut origins: HashMap<&str, &str> = names.iter().map(|name| (*name, *name)).collect();
    for node in graph.node.iter().filter(|node| node.op_type == "Identity") {
        if let ([from], [to]) = (node.input.as_slice(), node.output.as_slice())
            && let Some(origin) = origins.get(from.as_str()).copied()
        {
            origins.insert(to, origin);
            names.push(to);
        }
    }
    let mut weights: HashMap<&str, Weight> = HashMap::new();
    for name in &names {
        let weight = match *shapes[origins[name]] {
            [first, second] => {
                let shape = [first, second].map(|extent| usize::try_from(extent).unwrap_or(0));
                Weight { shape, ..Weight::default() }
            }
            ref dims => {
                let refused = format!("it is no matrix, for it has the shape {dims:?}");
                Weight { refused: Some(refused), ..Weight::default() }
            }
        };
        weights.insert(name, weight);
    }
    // Values that are the transpose of a weight.
    let mut exchanged: HashMap<&str, &str> = HashMap::new();
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    for (index, node) in graph.node.iter().enumerate() {
        if let ("Transpose", [from], [to]) = (node.op_type.as_str(), node.input.as_slice(), node.output.as_slice())
            && weights.get(from.as_str()).is_some_and(|weight| weight.shape != [0, 0])
            && !outputs.contains(to.as_str())
            && attr_ints(&node.attribute, "perm").is_none_or(|perm| perm == [1, 0])
        {
            exchanged.insert(to, from);
            continue;
        }
        for (slot, input) in node.input.iter().enumerate() {
            let (name, is_exchanged) = match exchanged.get(input.as_str()) {
                Some(name) => (*name, true),
                None => (input.as_str(), false),
            };
            let is_alias = node.op_type == "Identity" && node.output.iter().any(|to| origins.contains_key(to.as_str()));
            let Some(weight) = weights.get_mut(name).filter(|_| !is_alias) else { continue };
            match read(node, index, slot, is_exchanged) {
                Ok(read) => weight.reads.push(read),
                Err(why) => {
                    weight.refused.get_or_insert(why);
                }
            }
        }
    }
    for (name, weight) in &mut weights {
        let mixed = weight.reads.windows(2).any(|two| two[0].transposed != two[1].transposed);
        let why = match () {
            () if outputs.contains(name) => "it is an output of the model",
            () if weight.reads.is_empty() => "no MatMul or Gemm reads it",
            () if mixed => "it is read both as it is and transposed",
            () if weight.shape.contains(&0) => "it has no elements",
            () => continue,
        };
        weight.refused.get_or_insert_with(|| why.into());
    }
    (names, weights)
}

/// Read of a weight by a linear layer. The error is the reason why it is not one.
fn read(node: &NodeProto, index: usize, slot: usize, is_exchanged: bool) -> Result<Read, String> {
    let called = node_name(node, index);
    let is_standard = matches!(node.domain.as_str(), "" | "ai.onnx");
    match (node.op_type.as_str(), slot) {
        ("MatMul", 1) if is_standard => Ok(Read { node: index, transposed: is_exchanged, factor: 1.0 }),
        ("Gemm", 1) if is_standard && attr_int(&node.attribute, "transA", 0) == 0 => Ok(Read {
            node: index,
            transposed: is_exchanged != (attr_int(&node.attribute, "transB", 0) != 0),
            factor: attr_float(&node.attribute, "alpha", 1.0),
        }),
        ("Gemm", 1) => Err(format!("Gemm '{called}' transposes its samples (transA)")),
        ("MatMul" | "Gemm", 0) => Err(format!("{} '{called}' reads it on the left", node.op_type)),
        ("Gather", 0) => Err(format!("Gather '{called}' reads it, an embedding, whose rows no adapter changes")),
        (op, _) => Err(format!("{op} '{called}' reads it, and adapters are for MatMul and Gemm")),
    }
}
