//! Rewrites a model with a fixed batch for any batch size. It writes the batch axes that [`Graph`] has proven into the
//! model.
//!
//! The result is read again with a symbolic batch. It is accepted only if every output keeps its layout and no operator
//! mixes samples. So a constant that still contains the batch size is detected.

use std::collections::HashMap;

use super::standard::batch_axes;
use super::{Graph, GraphOptions, Value};
use crate::pb::tensor_shape_proto::dimension;
use crate::pb::{GraphProto, ModelProto, NodeProto, ValueInfoProto, tensor_shape_proto, type_proto};
use crate::{make_attr_int, make_node, make_tensor_i64, node_name};

/// Name of the batch axis.
const BATCH: &str = "batch";

/// `model` for any batch size, or `None` if it already supports any batch size. `graph` must be read from `model` with
/// `options`.
///
/// # Errors
/// Reason why the batch stays fixed.
pub fn free_batch(model: &ModelProto, graph: &Graph, options: &GraphOptions) -> Result<Option<ModelProto>, String> {
    let mut freed = model.clone();
    let Some(body) = freed.graph.as_mut() else { return Ok(None) };
    if !fixes_batch(body, graph) {
        return Ok(None);
    }
    name_nodes(body);
    let moved: HashMap<String, usize> = batch_axes(body).into_iter().collect();
    for info in &mut body.input {
        if graph.inputs.iter().any(|id| graph.value(*id).name == info.name) {
            free_extent(info, moved.get(&info.name).copied().unwrap_or(0), true);
        }
    }
    for info in &mut body.output {
        if let Some(batch) = graph.find(&info.name).and_then(|id| graph.value(id).batch) {
            free_extent(info, batch.axis, batch.extent() == 1);
        }
    }
    body.value_info.clear();
    let found = Values::of(body, graph);
    let mut nodes = Vec::with_capacity(body.node.len());
    for mut node in std::mem::take(&mut body.node) {
        let output = node.output.first().and_then(|name| found.get(name)).cloned();
        match (&*node.op_type, output) {
            ("Reshape" | "Expand", Some(value)) => free_target(&mut node, &value, &found, &mut body.initializer),
            ("Concat", Some(value)) => spread(&mut node, &value, &found, &mut nodes, &mut body.initializer),
            _ => {}
        }
        nodes.push(node);
    }
    body.node = nodes;
    check(&freed, graph, options)?;
    Ok(Some(freed))
}

/// Checks that the model with a symbolic batch has the same outputs.
fn check(freed: &ModelProto, graph: &Graph, options: &GraphOptions) -> Result<(), String> {
    let options = GraphOptions {
        train: vec!["*".into()],
        shape: options.shape.clone(),
        input: options.input.clone(),
        ..GraphOptions::default()
    };
    let again = Graph::from_model(freed, &options).map_err(|error| error.to_string())?;
    let lie = |graph: &Graph| {
        let outputs = graph.outputs.iter().map(|id| graph.value(*id));
        outputs.map(|value| (value.name.clone(), value.shape.clone(), value.batch)).collect::<Vec<_>>()
    };
    if lie(&again) == lie(graph) { Ok(()) } else { Err("its outputs have other shapes with another batch".into()) }
}

fn fixes_batch(body: &GraphProto, graph: &Graph) -> bool {
    let is_input = |info: &&ValueInfoProto| graph.inputs.iter().any(|id| graph.value(*id).name == info.name);
    let moved: HashMap<String, usize> = batch_axes(body).into_iter().collect();
    let first =
        |info: &ValueInfoProto| shape(info)?.dim.get(moved.get(&info.name).copied().unwrap_or(0))?.value.clone();
    body.input
        .iter()
        .filter(is_input)
        .any(|info| matches!(first(info), Some(dimension::Value::DimValue(size)) if size > 0))
}

fn shape(info: &ValueInfoProto) -> Option<&crate::pb::TensorShapeProto> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
    tensor.shape.as_ref()
}

/// Makes the extent of `axis` the batch. An axis merged with others gets no declared extent.
fn free_extent(info: &mut ValueInfoProto, axis: usize, is_alone: bool) {
    let value = info.r#type.as_mut().and_then(|kind| kind.value.as_mut());
    if let Some(type_proto::Value::TensorType(tensor)) = value
        && let Some(tensor_shape_proto::Dimension { value, .. }) =
            tensor.shape.as_mut().and_then(|shape| shape.dim.get_mut(axis))
    {
        *value = is_alone.then(|| dimension::Value::DimParam(BATCH.into()));
    }
}

/// Gives nodes the names that messages and split parameters use.
fn name_nodes(body: &mut GraphProto) {
    for (index, node) in body.node.iter_mut().enumerate() {
        node.name = node_name(node, index);
    }
}

/// Operators that the graph omits if they change nothing.
const LEFT_OUT: [&str; 11] = [
    "Cast",
    "CastLike",
    "Dropout",
    "Expand",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Squeeze",
    "Tile",
    "Unsqueeze",
];

/// Typed values by the model's names. If the graph omits a node, its name has the value of the node's first input.
struct Values(HashMap<String, Value>);

impl Values {
    fn of(body: &GraphProto, graph: &Graph) -> Values {
        let mut values: HashMap<String, Value> =
            graph.values.iter().map(|value| (value.name.clone(), value.clone())).collect();
        // The name of an output goes to the last node before the omitted nodes.
        for node in
            body.node.iter().rev().filter(|node| matches!(&*node.op_type, "Identity" | "Dropout" | "Cast" | "CastLike"))
        {
            if let (Some(input), Some(value)) =
                (node.input.first(), node.output.first().and_then(|name| values.get(name)).cloned())
            {
                values.entry(input.clone()).or_insert(value);
            }
        }
        for node in body.node.iter().filter(|node| LEFT_OUT.contains(&&*node.op_type)) {
            let first = node.input.first().and_then(|name| values.get(name)).cloned();
            if let (Some(output), Some(value)) = (node.output.first(), first) {
                values.entry(output.clone()).or_insert(value);
            }
        }
        Values(values)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

/// Replaces the constant target of a `Reshape` or `Expand` by a target without the batch size.
fn free_target(node: &mut NodeProto, value: &Value, found: &Values, initializers: &mut Vec<crate::pb::TensorProto>) {
    let Some(batch) = value.batch else { return };
    let of_data = node.input.first().and_then(|name| found.get(name)).is_some_and(|from| from.batch.is_some());
    if !of_data || node.input.len() < 2 {
        return;
    }
    let mut target: Vec<i64> = value.shape.iter().map(|&extent| extent as i64).collect();
    // In `Expand`, 1 keeps an axis. In `Reshape`, -1 infers it.
    target[batch.axis] = if node.op_type == "Expand" { 1 } else { -1 };
    let name = format!("{}/free_target", node.output[0]);
    initializers.push(make_tensor_i64(&name, &[target.len()], &target));
    node.input[1] = name;
    node.attribute.retain(|attribute| attribute.name != "allowzero");
}

/// Expands inputs of a `Concat` that are the same for all samples, such as a class token, to every sample.
fn spread(
    node: &mut NodeProto,
    value: &Value,
    found: &Values,
    nodes: &mut Vec<NodeProto>,
    initializers: &mut Vec<crate::pb::TensorProto>,
) {
    let Some(batch) = value.batch.filter(|batch| batch.extent() == 1) else { return };
    let batched = |name: &String| found.get(name).is_some_and(|value| value.batch.is_some());
    let Some(samples) = node.input.iter().find(|name| batched(name)).cloned() else { return };
    let is_alone = |name: &String| found.get(name).is_some_and(|value| value.batch.is_none());
    for (slot, input) in node.input.iter_mut().enumerate().filter(|(_, name)| is_alone(name)) {
        let part = |what: &str| format!("{}/{what}_{slot}", node.output[0]);
        let ones: Vec<i64> = vec![1; value.shape.len()];
        let (before, after) = (&ones[..batch.axis], &ones[batch.axis + 1..]);
        let mut parts = Vec::new();
        let mut list = |name: &str, numbers: &[i64]| {
            initializers.push(make_tensor_i64(&part(name), &[numbers.len()], numbers));
            part(name)
        };
        let axis = list("axis", &[batch.axis as i64]);
        if !before.is_empty() {
            parts.push(list("before", before));
        }
        parts.push(part("samples"));
        if !after.is_empty() {
            parts.push(list("after", after));
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (extents, number, target, spread) = (part("shape"), part("samples"), part("target"), part("spread"));
        nodes.push(make_node("Shape", &extents, &[&samples], &[&extents], vec![]));
        nodes.push(make_node("Gather", &number, &[&extents, &axis], &[&number], vec![make_attr_int("axis", 0)]));
        nodes.push(make_node("Concat", &target, &parts, &[&target], vec![make_attr_int("axis", 0)]));
        nodes.push(make_node("Expand", &spread, &[input.as_str(), &target], &[&spread], vec![]));
        *input = spread;
    }
}
