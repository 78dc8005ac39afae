//! Replaces BatchNormalization, which has no per-sample gradient because its statistics are those of the batch.
//!
//! A normalisation that was never trained (means 0, variances 1) becomes a GroupNorm with the same weights, as in
//! Opacus' `ModuleValidator.fix`. So does a normalisation in training mode. A normalisation with statistics, as in a
//! pretrained model, is a scale and a shift. It is merged into the layer before it if possible, or else becomes a
//! separate scale and shift. That changes no output.
//!
//! GroupNorm is emitted in the form of PyTorch's exporter, which every opset supports: Reshape, InstanceNormalization,
//! Reshape, Mul, Add.

use super::rewrite::{depends_on_data, group_norm, list_new, readers, remove_unread, set, usual_groups};
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto};
use damper_onnx::{SettingError, Tensor, decode_tensor, make_node, make_tensor_f32, make_tensor_i64, node_name};
use damper_onnx::{attr_float, attr_int};
use std::collections::HashSet;

/// Replacement of each BatchNormalization.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BatchNormFix {
    /// By its statistics: a GroupNorm if there are none, else merged.
    #[default]
    Auto,
    /// A GroupNorm.
    Group,
    /// A scale and a shift from its statistics.
    Merge,
}

impl std::str::FromStr for BatchNormFix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "group" => Ok(Self::Group),
            "merge" => Ok(Self::Merge),
            _ => Err("use auto, group or merge".into()),
        }
    }
}

/// Replacement of one BatchNormalization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchNormChange {
    /// Node name, or operator and position.
    pub node: String,
    /// Replacement.
    pub to: Replacement,
}

/// Kind of replacement of a BatchNormalization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// A GroupNorm.
    GroupNorm {
        /// Number of groups.
        groups: usize,
        /// Number of channels.
        channels: usize,
    },
    /// Merged into the layer before it.
    Merged {
        /// Node of the layer.
        layer: String,
    },
    /// A separate scale and shift.
    Affine,
    /// Unchanged.
    Kept {
        /// Reason.
        why: &'static str,
    },
}

/// BatchNormalization with its values.
struct Norm {
    at: usize,
    name: String,
    x: String,
    y: String,
    /// Names of the scale and the bias.
    names: [String; 2],
    scale: Vec<f32>,
    bias: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    epsilon: f32,
    is_training: bool,
}

impl Norm {
    fn has_statistics(&self) -> bool {
        self.mean.iter().any(|x| *x != 0.0) || self.variance.iter().any(|x| *x != 1.0)
    }

    /// Scale and shift from its statistics.
    fn affine(&self) -> (Vec<f64>, Vec<f64>) {
        let scale: Vec<f64> = (0..self.scale.len())
            .map(|c| f64::from(self.scale[c]) / (f64::from(self.variance[c]) + f64::from(self.epsilon)).sqrt())
            .collect();
        let shift =
            scale.iter().enumerate().map(|(c, s)| f64::from(self.bias[c]) - f64::from(self.mean[c]) * s).collect();
        (scale, shift)
    }
}

/// Replaces every BatchNormalization of `model`. `groups` is the number of groups of each GroupNorm. By default it is
/// the largest divisor of the channels up to 32 with at least two channels per group. Returns the changes in the order
/// of the nodes.
///
/// # Errors
///
/// [`SettingError`] if `groups` does not divide the channels of a normalisation.
pub fn fix_batch_norm(
    model: &mut ModelProto,
    fix: BatchNormFix,
    groups: Option<usize>,
) -> Result<Vec<BatchNormChange>, SettingError> {
    let listed = model.ir_version < 4;
    let Some(graph) = model.graph.as_mut() else { return Ok(vec![]) };
    let before: HashSet<String> = graph.initializer.iter().map(|tensor| tensor.name.clone()).collect();
    let (mut changes, mut read_before) = (Vec::new(), HashSet::new());
    let mut from = 0;
    while let Some(at) = (from..graph.node.len()).find(|&at| graph.node[at].op_type == "BatchNormalization") {
        let node = node_name(&graph.node[at], at);
        let to = match read(graph, at) {
            Err(why) => Replacement::Kept { why },
            Ok(norm) => {
                read_before.extend(graph.node[at].input.iter().skip(1).cloned());
                let is_group = match fix {
                    BatchNormFix::Auto => norm.is_training || !norm.has_statistics(),
                    BatchNormFix::Group => true,
                    BatchNormFix::Merge => false,
                };
                if is_group { group(graph, &norm, groups)? } else { merge(graph, &norm) }
            }
        };
        from = if matches!(to, Replacement::Kept { .. }) { at + 1 } else { at };
        changes.push(BatchNormChange { node, to });
    }
    remove_unread(graph, &read_before);
    if listed {
        list_new(graph, &before);
    }
    Ok(changes)
}

fn read(graph: &GraphProto, at: usize) -> Result<Norm, &'static str> {
    let node = &graph.node[at];
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let is_read =
        |name: &String| outputs.contains(name.as_str()) || graph.node.iter().any(|reader| reader.input.contains(name));
    if node.output.iter().skip(1).any(|name| !name.is_empty() && is_read(name)) {
        return Err("its statistics are read");
    }
    if !depends_on_data(graph, node.input.first().map_or("", String::as_str)) {
        return Err("it normalises weights, not samples");
    }
    let values = |slot: usize| -> Option<Vec<f32>> {
        let name = origin(graph, node.input.get(slot)?);
        let tensor = graph.initializer.iter().find(|tensor| tensor.name == name)?;
        Some(decode_tensor(tensor).ok()?.as_f32()?.to_vec())
    };
    let all = (values(1), values(2), values(3), values(4));
    let (Some(scale), Some(bias), Some(mean), Some(variance)) = all else {
        return Err("its weights and statistics are no float32 initializers");
    };
    if [&bias, &mean, &variance].iter().any(|values| values.len() != scale.len()) {
        return Err("its weights and statistics differ in length");
    }
    Ok(Norm {
        at,
        name: node_name(node, at),
        x: node.input[0].clone(),
        y: node.output.first().cloned().unwrap_or_default(),
        names: [node.input[1].clone(), node.input[2].clone()],
        scale,
        bias,
        mean,
        variance,
        epsilon: attr_float(&node.attribute, "epsilon", 1e-5),
        is_training: attr_int(&node.attribute, "training_mode", 0) != 0,
    })
}

/// Value to which `name` resolves, through the `Identity` nodes with which exporters merge equal tensors.
fn origin<'a>(graph: &'a GraphProto, name: &'a str) -> &'a str {
    let mut name = name;
    // The number of nodes bounds the length of a chain.
    for _ in 0..graph.node.len() {
        let by = graph.node.iter().find(|node| node.output.iter().any(|output| output == name));
        match by.filter(|node| node.op_type == "Identity").and_then(|node| node.input.first()) {
            Some(from) => name = from,
            None => break,
        }
    }
    name
}

/// Name for the scale or the bias of `norm`: its own name if it is an initializer without other readers.
fn own_name(graph: &GraphProto, norm: &Norm, name: &str) -> String {
    let is_stored = graph.initializer.iter().any(|tensor| tensor.name == name);
    let is_own = is_stored && readers(graph, name).len() == 1;
    if is_own { name.into() } else { format!("{}/{name}", norm.name) }
}

fn group(graph: &mut GraphProto, norm: &Norm, groups: Option<usize>) -> Result<Replacement, SettingError> {
    let channels = norm.scale.len();
    let groups = groups.unwrap_or_else(|| usual_groups(channels));
    if groups == 0 || !channels.is_multiple_of(groups) {
        let problem = format!("does not divide the {channels} channels of '{}'; give a divisor", norm.name);
        return Err(SettingError::new("groups", groups, problem));
    }
    let (nodes, normed) = group_norm(graph, &norm.name, &norm.x, groups, norm.epsilon);
    put_affine(graph, norm, nodes, &normed, &norm.names.clone());
    Ok(Replacement::GroupNorm { groups, channels })
}

fn merge(graph: &mut GraphProto, norm: &Norm) -> Replacement {
    let (scale, shift) = norm.affine();
    if let Some(layer) = merge_into_layer(graph, norm, &scale, &shift) {
        graph.node.remove(norm.at);
        return Replacement::Merged { layer };
    }
    let single = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let [weight, bias] = norm.names.each_ref().map(|name| own_name(graph, norm, name));
    let names = if weight == bias { [format!("{weight}.weight"), format!("{bias}.bias")] } else { [weight, bias] };
    for (name, values) in names.iter().zip([single(&scale), single(&shift)]) {
        set(graph, make_tensor_f32(name, &[values.len()], &values));
    }
    put_affine(graph, norm, vec![], &norm.x, &names);
    Replacement::Affine
}

/// Replaces `norm` by `nodes`, and by the scale and shift `names` of their value's channels.
fn put_affine(graph: &mut GraphProto, norm: &Norm, mut nodes: Vec<NodeProto>, value: &str, names: &[String; 2]) {
    let channels = norm.scale.len() as i64;
    let own = |part: &str| format!("{}/Affine/{part}", norm.name);
    let parts = ["channels", "flat", "column", "weight", "bias", "scaled", "shifted", "shape"];
    let [flat, by_channel, column, weight, bias, scaled, shifted, shape] = parts.map(own);
    graph.initializer.push(make_tensor_i64(&flat, &[3], &[0, channels, -1]));
    graph.initializer.push(make_tensor_i64(&column, &[2], &[channels, 1]));
    let steps: [(&str, &str, [&str; 2], &str); 6] = [
        ("Reshape", "Reshape", [value, &flat], &by_channel),
        ("Reshape", "Weight", [&names[0], &column], &weight),
        ("Mul", "Mul", [&by_channel, &weight], &scaled),
        ("Reshape", "Bias", [&names[1], &column], &bias),
        ("Add", "Add", [&scaled, &bias], &shifted),
        ("Reshape", "Restore", [&shifted, &shape], &norm.y),
    ];
    nodes.push(make_node("Shape", &own("Shape"), &[&norm.x], &[&shape], vec![]));
    nodes.extend(steps.map(|(op, name, inputs, output)| make_node(op, &own(name), &inputs, &[output], vec![])));
    graph.node.splice(norm.at..=norm.at, nodes);
}

/// Scales and shifts the outputs of the layer before `norm`, if its output and weights have no other readers. Returns
/// the layer's name.
fn merge_into_layer(graph: &mut GraphProto, norm: &Norm, scale: &[f64], shift: &[f64]) -> Option<String> {
    let at = graph.node.iter().position(|node| node.output.contains(&norm.x))?;
    let layer = graph.node[at].clone();
    let int = |name: &str, default: i64| attr_int(&layer.attribute, name, default);
    let (axis, of_bias) = match layer.op_type.as_str() {
        "Conv" => (0, 1.0),
        "ConvTranspose" if int("group", 1) == 1 => (1, 1.0),
        "Gemm" if int("transA", 0) == 0 => {
            (usize::from(int("transB", 0) == 0), f64::from(attr_float(&layer.attribute, "beta", 1.0)))
        }
        _ => return None,
    };
    let is_output = graph.output.iter().any(|output| output.name == norm.x);
    if is_output || of_bias == 0.0 || readers(graph, &norm.x).len() != 1 {
        return None;
    }
    let tensor = |name: &str| -> Option<Tensor> {
        let proto = graph.initializer.iter().find(|tensor| tensor.name == name)?;
        (readers(graph, name).len() == 1).then(|| decode_tensor(proto).ok())?
    };
    let weight_name = layer.input.get(1)?;
    let weight = tensor(weight_name)?;
    let channels = scale.len();
    if weight.shape.get(axis) != Some(&channels) {
        return None;
    }
    let inner: usize = weight.shape[axis + 1..].iter().product();
    let of_channel = |index: usize| scale[index / inner.max(1) % channels];
    let weights: Vec<f32> =
        weight.as_f32()?.iter().enumerate().map(|(i, w)| (f64::from(*w) * of_channel(i)) as f32).collect();
    let (bias_name, old) = match layer.input.get(2).filter(|name| !name.is_empty()) {
        None => (own_name(graph, norm, &norm.names[1]), vec![0.0; channels]),
        Some(name) => {
            let bias = tensor(name)?;
            let old = bias.as_f32()?.to_vec();
            (name.clone(), if old.len() == 1 { vec![old[0]; channels] } else { old })
        }
    };
    if old.len() != channels {
        return None;
    }
    let bias: Vec<f32> = (0..channels).map(|c| (f64::from(old[c]) * scale[c] + shift[c] / of_bias) as f32).collect();
    let weight_name = weight_name.clone();
    set(graph, make_tensor_f32(&weight_name, &weight.shape, &weights));
    set(graph, make_tensor_f32(&bias_name, &[channels], &bias));
    let node = &mut graph.node[at];
    node.input.resize(3, String::new());
    node.input[2] = bias_name;
    node.output = vec![norm.y.clone()];
    Some(node_name(node, at))
}
