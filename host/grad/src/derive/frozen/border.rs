//! Stored values with samples on an axis other than 0, such as in networks with the sequence first. The frozen part
//! transposes them before they are stored. The rest transposes them back.

use super::super::super::emit::BATCH_FIRST;
use damper_onnx::graph::{Graph, Node, Origin, Value, ValueId};
use damper_onnx::make_attr_ints;

/// Permutation of a value of this rank that puts axis `samples` first.
fn samples_first(rank: usize, samples: usize) -> Vec<usize> {
    std::iter::once(samples).chain((0..rank).filter(|axis| *axis != samples)).collect()
}

/// Inverse of the permutation `order`.
fn inverse(order: &[usize]) -> Vec<usize> {
    (0..order.len()).map(|axis| order.iter().position(|at| *at == axis).unwrap_or(axis)).collect()
}

/// Value `id` of `graph` with its samples first, under a new name.
fn turned(graph: &Graph, id: ValueId, order: &[usize], origin: Origin) -> Value {
    let value = graph.value(id);
    let shape = order.iter().map(|axis| value.shape[*axis]).collect();
    let mut name = format!("{}.samples_first", value.name);
    while graph.find(&name).is_some() {
        name.push('_');
    }
    Value { name, shape, batch: Some(BATCH_FIRST), origin, ..value.clone() }
}

fn transpose(name: &str, order: &[usize], from: ValueId, to: ValueId) -> Node {
    let axes: Vec<i64> = order.iter().map(|axis| *axis as i64).collect();
    let attributes = vec![make_attr_ints("perm", &axes)];
    Node { name: name.into(), op: "Transpose".into(), inputs: vec![Some(from)], outputs: vec![to], attributes }
}

/// Axis of the samples of value `id`, if it is not 0.
fn other_axis(graph: &Graph, id: ValueId) -> Option<usize> {
    graph.value(id).batch.map(|batch| batch.axis).filter(|axis| *axis != 0)
}

/// Transposes the outputs of `graph`.
pub(super) fn turn_outputs(graph: &mut Graph) {
    for at in 0..graph.outputs.len() {
        let from = graph.outputs[at];
        let Some(samples) = other_axis(graph, from) else { continue };
        let value = graph.value(from);
        let order = samples_first(value.shape.len(), samples);
        let turned = turned(graph, from, &order, Origin::Node { node: graph.nodes.len(), slot: 0 });
        let to = ValueId(graph.values.len());
        graph.nodes.push(transpose(&turned.name, &order, from, to));
        graph.values.push(turned);
        graph.outputs[at] = to;
    }
}

/// Transposes the inputs of `graph` back from the layout of [`turn_outputs`].
pub(super) fn turn_inputs(graph: &mut Graph) {
    let inputs = graph.inputs.iter().enumerate();
    let others: Vec<(usize, usize)> = inputs.filter_map(|(at, id)| Some((at, other_axis(graph, *id)?))).collect();
    // The new nodes come first.
    for value in &mut graph.values {
        if let Origin::Node { node, .. } = &mut value.origin {
            *node += others.len();
        }
    }
    for (place, (at, samples)) in others.into_iter().enumerate() {
        let to = graph.inputs[at];
        let value = graph.value(to);
        let order = samples_first(value.shape.len(), samples);
        let node = transpose(&value.name, &inverse(&order), ValueId(graph.values.len()), to);
        let turned = turned(graph, to, &order, Origin::Input);
        graph.inputs[at] = ValueId(graph.values.len());
        graph.values.push(turned);
        graph.values[to.0].origin = Origin::Node { node: place, slot: 0 };
        graph.nodes.insert(place, node);
    }
}
