//! Binds the inputs of a model: values from the user, element types that samples do not have, and samples on another
//! axis than the first.

use super::super::{GraphError, GraphOptions};
use crate::pb::tensor_proto::DataType;
use crate::pb::tensor_shape_proto::{Dimension, dimension};
use crate::pb::{GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, type_proto};
use crate::scopes::{constant, has_branches, redirect};
use crate::{
    DType, SettingError, Tensor, TensorData, make_attr_int, make_attr_ints, make_node, make_tensor, make_tensor_i64,
};
use std::collections::HashSet;

/// Maximum number of elements in the value of an input.
const MAX_GIVEN: usize = 1 << 24;

/// Sets the inputs that have public values. Converts the others to float32 or int64 with the samples first. Returns a
/// line for each input that was transposed.
pub(super) fn bind(graph: &mut GraphProto, options: &GraphOptions) -> Result<Vec<String>, GraphError> {
    for (name, text) in &options.input {
        give(graph, options, name, text)?;
    }
    let notes = move_samples_first(graph)?;
    widen(graph);
    Ok(notes)
}

/// Indices in `graph.input` of the inputs without an initializer.
fn data_inputs(graph: &GraphProto) -> Vec<usize> {
    let stored: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    (0..graph.input.len()).filter(|&at| !stored.contains(graph.input[at].name.as_str())).collect()
}

fn dims(info: &ValueInfoProto) -> Option<(i32, &[Dimension])> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
    Some((tensor.elem_type, &tensor.shape.as_ref()?.dim))
}

fn tensor_type(info: &mut ValueInfoProto) -> Option<&mut crate::pb::type_proto::Tensor> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_mut()?.value.as_mut()?;
    Some(tensor)
}

/// Fixed extent of a dimension, if it has one.
fn fixed(dim: &Dimension) -> Option<i64> {
    match dim.value {
        Some(dimension::Value::DimValue(size)) if size > 0 => Some(size),
        _ => None,
    }
}

fn param(dim: &Dimension) -> Option<&str> {
    match &dim.value {
        Some(dimension::Value::DimParam(name)) if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// Makes input `name` a constant with the value `text`.
fn give(graph: &mut GraphProto, options: &GraphOptions, name: &str, text: &str) -> Result<(), GraphError> {
    let wrong = |problem: String| GraphError::from(SettingError::new("input", format!("{name}={text}"), problem));
    let inputs = data_inputs(graph);
    let Some(&at) = inputs.iter().find(|&&at| graph.input[at].name == *name) else {
        let known: Vec<&str> = inputs.iter().map(|&at| graph.input[at].name.as_str()).collect();
        return Err(wrong(format!("the model has no such input; it has {}", known.join(", "))));
    };
    let Some((elem_type, dims)) = dims(&graph.input[at]) else {
        return Err(wrong("the input declares no type and shape".into()));
    };
    let given: Vec<f64> = text
        .split(',')
        .map(|part| match part.trim() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            number => number.parse::<f64>().ok().filter(|x| x.is_finite()),
        })
        .collect::<Option<_>>()
        .ok_or_else(|| wrong("give a number, true, false, or numbers with commas between them".into()))?;
    let first = inputs.iter().find(|&&other| other != at);
    let batch = first.and_then(|&first| self::dims(&graph.input[first])).and_then(|(_, dims)| dims.first());
    let batch_name = batch.and_then(param).map(str::to_owned);
    let (shape, samples) = extents(dims, options, name, batch_name.as_deref()).map_err(wrong)?;
    let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).filter(|&n| n <= MAX_GIVEN);
    let count = count.ok_or_else(|| wrong("the input is too large for a given value".into()))?;
    let values = match &given[..] {
        &[one] => vec![one; count],
        several if several.len() == count => several.to_vec(),
        several => return Err(wrong(format!("{} numbers for an input of {count}", several.len()))),
    };
    let tensor = Tensor { shape: shape.clone(), data: typed(elem_type, &values).map_err(wrong)? };
    graph.input.remove(at);
    let first = data_inputs(graph).first().map(|&at| graph.input[at].name.clone());
    match samples.zip(first) {
        None => graph.node.insert(0, constant(make_tensor(name, &tensor))),
        Some((axis, first)) => repeat(graph, name, &tensor, axis, &first),
    }
    Ok(())
}

/// Extents of a given input, and its axis with one row per sample, if there is one.
fn extents(
    dims: &[Dimension],
    options: &GraphOptions,
    name: &str,
    batch: Option<&str>,
) -> Result<(Vec<usize>, Option<usize>), String> {
    let shape = extents_of(dims, options, name);
    let open: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis].is_none()).collect();
    let named = open.iter().copied().find(|&axis| batch.is_some() && param(&dims[axis]) == batch);
    let samples = named.or(match open[..] {
        [axis] if batch.is_none() || param(&dims[axis]).is_none() => Some(axis),
        _ => None,
    });
    if let Some(axis) = open.iter().find(|axis| Some(**axis) != samples) {
        return Err(format!("axis {axis} of the input is open; fix it with `shape` '{name}[{axis}]'"));
    }
    Ok((shape.into_iter().map(|size| size.unwrap_or(1)).collect(), samples))
}

/// Extents of input `name`, as fixed by the file or by `shape`.
fn extents_of(dims: &[Dimension], options: &GraphOptions, name: &str) -> Vec<Option<usize>> {
    let sized = |axis: usize, dim: &Dimension| {
        let place = format!("{name}[{axis}]");
        let is_named = |given: &str| given == place || param(dim) == Some(given);
        let given = options.shape.iter().find(|(given, _)| is_named(given)).map(|(_, size)| *size);
        fixed(dim).map(|size| size as usize).or(given)
    };
    dims.iter().enumerate().map(|(axis, dim)| sized(axis, dim)).collect()
}

/// Makes `name` the value of `tensor`, which has extent 1 along `axis`, repeated for each sample of the input `first`.
fn repeat(graph: &mut GraphProto, name: &str, tensor: &Tensor, axis: usize, first: &str) {
    let part = |what: &str| format!("{name}/{what}");
    let extents: Vec<i64> = tensor.shape.iter().map(|&extent| extent as i64).collect();
    let mut parts = Vec::new();
    let mut nodes =
        vec![constant(make_tensor(&part("value"), tensor)), constant(make_tensor_i64(&part("first"), &[1], &[0]))];
    nodes.push(make_node("Shape", &part("Shape"), &[first], &[&part("sizes")], vec![]));
    let inputs = [part("sizes"), part("first")];
    let inputs = inputs.each_ref().map(String::as_str);
    nodes.push(make_node("Gather", &part("Gather"), &inputs, &[&part("samples")], vec![make_attr_int("axis", 0)]));
    for (what, list) in [("before", &extents[..axis]), ("", &[]), ("after", &extents[axis + 1..])] {
        match (what, list) {
            ("", _) => parts.push(part("samples")),
            (_, []) => {}
            (what, list) => {
                nodes.push(constant(make_tensor_i64(&part(what), &[list.len()], list)));
                parts.push(part(what));
            }
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    nodes.push(make_node("Concat", &part("Concat"), &parts, &[&part("target")], vec![make_attr_int("axis", 0)]));
    let inputs = [part("value"), part("target")];
    let inputs = inputs.each_ref().map(String::as_str);
    nodes.push(make_node("Expand", &part("Expand"), &inputs, &[name], vec![]));
    graph.node.splice(0..0, nodes);
}

fn typed(elem_type: i32, values: &[f64]) -> Result<TensorData, String> {
    let whole = || match values.iter().find(|x| x.fract() != 0.0 || x.abs() > 2f64.powi(53)) {
        Some(x) => Err(format!("{x} is no integer, and the input is one of integers")),
        None => Ok(()),
    };
    Ok(match DataType::try_from(elem_type) {
        Ok(DataType::Double) => TensorData::F64(values.to_vec()),
        Ok(DataType::Float | DataType::Float16 | DataType::Bfloat16) => {
            TensorData::F32(values.iter().map(|&x| x as f32).collect())
        }
        Ok(DataType::Bool) => TensorData::Bool(values.iter().map(|&x| x != 0.0).collect()),
        Ok(DataType::Int32) => {
            whole()?;
            TensorData::I32(values.iter().map(|&x| x as i32).collect())
        }
        Ok(_) => {
            whole()?;
            TensorData::I64(values.iter().map(|&x| x as i64).collect())
        }
        Err(_) => return Err("the input has an unknown element type".into()),
    })
}

/// Data inputs with samples along an axis other than the first, with that axis. It has the size or name of axis 0 of
/// the first input, and no other axis has.
pub(in super::super) fn batch_axes(graph: &GraphProto) -> Vec<(String, usize)> {
    let inputs = data_inputs(graph);
    let of = |at: usize| dims(&graph.input[at]).map(|(_, dims)| dims);
    let Some(first) = inputs.first().and_then(|&at| of(at)?.first()) else { return vec![] };
    let is_batch = |dim: &Dimension| match (fixed(first), fixed(dim)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => param(first).is_none() || param(dim).is_none() || param(first) == param(dim),
        _ => false,
    };
    let moved = |&at: &usize| {
        let dims = of(at)?;
        if dims.first().is_none_or(is_batch) {
            return None;
        }
        let mut fitting = (1..dims.len()).filter(|&axis| is_batch(&dims[axis]));
        let axis = fitting.next().filter(|_| fitting.next().is_none())?;
        Some((graph.input[at].name.clone(), axis))
    };
    inputs.iter().skip(1).filter_map(moved).collect()
}

/// Moves the samples to axis 0 of every input.
fn move_samples_first(graph: &mut GraphProto) -> Result<Vec<String>, GraphError> {
    let mut notes = Vec::new();
    for (name, axis) in batch_axes(graph) {
        let moved = format!("{name}/as_exported");
        redirect(graph, &name, &moved);
        let Some(info) = graph.input.iter_mut().find(|info| info.name == name) else { continue };
        let Some(TensorShapeProto { dim }) = tensor_type(info).and_then(|tensor| tensor.shape.as_mut()) else {
            continue;
        };
        let rank = dim.len() as i64;
        let batch = dim.remove(axis);
        dim.insert(0, batch);
        let axis = axis as i64;
        let perm: Vec<i64> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
        let node = make_node("Transpose", &moved, &[&name], &[&moved], vec![make_attr_ints("perm", &perm)]);
        graph.node.insert(0, node);
        notes.push(format!(
            "input '{name}' holds the samples along axis {axis}: give them along axis 0 of its data, or one value for all with `input` {name}=VALUE"
        ));
    }
    Ok(notes)
}

/// Returns true if only casts read `name`.
fn is_cast_alone(graph: &GraphProto, name: &str) -> bool {
    let reads = |node: &&NodeProto| node.input.iter().any(|input| input == name);
    !has_branches(graph) && graph.node.iter().filter(reads).all(|node| node.op_type == "Cast")
}

/// Converts inputs of other integers and of Booleans to int64, the type of samples, followed by a cast.
fn widen(graph: &mut GraphProto) {
    for at in data_inputs(graph) {
        let name = graph.input[at].name.clone();
        let Some((elem_type, _)) = dims(&graph.input[at]) else { continue };
        let kind = DataType::try_from(elem_type);
        let is_small = matches!(
            kind,
            Ok(DataType::Uint8 | DataType::Int8 | DataType::Uint16 | DataType::Int16 | DataType::Uint32)
        );
        let known = matches!(DType::from_onnx(elem_type), Ok(DType::I32 | DType::Bool));
        // Arithmetic on small integers wraps around, and on int64 it would not.
        if !(known || is_small && is_cast_alone(graph, &name)) {
            continue;
        }
        if let Some(tensor) = tensor_type(&mut graph.input[at]) {
            tensor.elem_type = DataType::Int64 as i32;
        }
        if known {
            let cast = format!("{name}/as_exported");
            let first = graph.node.iter().position(|node| node.output.first() == Some(&cast)).map_or(0, |at| at + 1);
            let from = if first > 0 { cast.clone() } else { name.clone() };
            let to = format!("{from}/cast");
            redirect(graph, &from, &to);
            let attributes = vec![make_attr_int("to", elem_type.into())];
            graph.node.insert(first, make_node("Cast", &to, &[&from], &[&to], attributes));
        }
    }
}

/// Input that the samples provide, with the axes that the file leaves open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenInput {
    /// Name.
    pub name: String,
    /// Extents of a sample. `None` for an axis without an extent in the file.
    pub extents: Vec<Option<usize>>,
}

/// Inputs that the samples provide, with the extents of a sample as fixed by the file or by `shape`.
///
/// # Errors
/// [`GraphError`] if the model has no supported form.
pub fn open_inputs(model: &ModelProto, options: &GraphOptions) -> Result<Vec<OpenInput>, GraphError> {
    let mut graph = inputs_of(model);
    bind(&mut graph, options)?;
    let input = |at: usize| {
        let name = graph.input[at].name.clone();
        let dims = dims(&graph.input[at]).map_or(&[][..], |(_, dims)| dims);
        let extents = extents_of(dims, options, &name).split_off(dims.len().min(1));
        OpenInput { name, extents }
    };
    Ok(data_inputs(&graph).into_iter().map(input).collect())
}

/// A model's inputs and the names of its initializers.
fn inputs_of(model: &ModelProto) -> GraphProto {
    let Some(graph) = &model.graph else { return GraphProto::default() };
    let named = |tensor: &TensorProto| TensorProto { name: tensor.name.clone(), ..TensorProto::default() };
    GraphProto {
        input: graph.input.clone(),
        initializer: graph.initializer.iter().map(named).collect(),
        ..GraphProto::default()
    }
}
