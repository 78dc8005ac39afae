//! The inputs that a data set must provide for a model's graph, and the model's output.

use crate::TrainError;
use damper_data::{InputShape, LabelKind};
use damper_grad::{DeriveOptions, FrozenPart, GradGraph, Loss};
use damper_onnx::graph::{Graph, TensorData, Value, ValueId};
use damper_onnx::pb::{GraphProto, TensorProto};
use damper_onnx::{Dim, SettingError, TensorSpec, attr_int};
use std::collections::{HashMap, HashSet};

/// Returns the output that feeds the loss: the requested output, otherwise the only output of the model.
pub(super) fn loss_output(options: &DeriveOptions, graph: &Graph) -> Result<ValueId, TrainError> {
    let named = |name: &String| graph.outputs.iter().find(|id| graph.value(**id).name == *name);
    // `derive` has rejected a model without such an output, and a model with several outputs and no choice.
    match (&options.loss, &options.output) {
        (Loss::Output(name), _) | (_, Some(name)) => named(name),
        _ => graph.outputs.first(),
    }
    .copied()
    .ok_or_else(|| SettingError::new("output", "", "the model has no output").into())
}

/// Returns the kind of labels that the loss takes.
pub(super) fn label_kind(options: &DeriveOptions, graph: &Graph, grad: &GradGraph, output: ValueId) -> LabelKind {
    let shape = grad.labels.as_ref().map(fixed);
    match options.loss {
        Loss::SoftmaxCrossEntropy | Loss::CausalLm | Loss::Ctc => {
            LabelKind::Classes { classes: Some(class_axis(options, graph.value(output)).0), shape }
        }
        Loss::Mse | Loss::L1 | Loss::Huber => LabelKind::Values { shape },
        Loss::BceWithLogits => LabelKind::Chances { shape },
        Loss::Output(_) => LabelKind::None,
    }
}

/// Returns the number of classes of the output that feeds the loss, and the stride between classes in a sample's part
/// of it.
pub(crate) fn class_axis(options: &DeriveOptions, output: &Value) -> (usize, usize) {
    // The loss sees the batch axis in front. If samples are an axis of their own, that axis is removed.
    let mut rest = output.shape.clone();
    if let Some(batch) = output.batch.filter(|batch| rest[batch.axis] == 1) {
        rest.remove(batch.axis);
    }
    let rank = rest.len() as i64 + 1;
    let axis = options.class_axis.unwrap_or(-1);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(0).clamp(1, rest.len().max(1)) - 1;
    (rest.get(axis).copied().unwrap_or(1), rest.iter().skip(axis + 1).product())
}

/// Returns the shape that the data set must provide for an input.
pub(super) fn input_shape(spec: &TensorSpec, graph: &Graph) -> InputShape {
    let input = graph.inputs.iter().find(|id| graph.value(**id).name == spec.name);
    InputShape {
        name: spec.name.clone(),
        shape: fixed(spec),
        dtype: spec.dtype,
        rows: input.and_then(|input| rows_looked_up(graph, *input)),
    }
}

/// Returns the shape that the data set must provide for an input of a network whose frozen part is `part`.
pub(super) fn opaque_input_shape(spec: &TensorSpec, part: &FrozenPart, graph: &Graph) -> InputShape {
    let of_rest = input_shape(spec, graph);
    let of_part = part.model.graph.as_ref().and_then(|graph| table_rows(graph, &spec.name));
    InputShape { rows: of_rest.rows.into_iter().chain(of_part).min(), ..of_rest }
}

/// Returns the row count of the smallest stored matrix in which the nodes of `graph` look up the input `name`.
fn table_rows(graph: &GraphProto, name: &str) -> Option<usize> {
    let mut same = HashSet::from([name]);
    let mut least: Option<usize> = None;
    for node in &graph.node {
        let reads = |slot: usize| node.input.get(slot).is_some_and(|name| same.contains(name.as_str()));
        // Slots of the indices and of the table.
        let lookups: &[(usize, usize)] = match &*node.op_type {
            "Gather" if attr_int(&node.attribute, "axis", 0) == 0 => &[(1, 0)],
            "EmbedLayerNormalization" => &[(0, 2), (1, 4)],
            "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Transpose" if reads(0) => {
                same.extend(node.output.iter().map(String::as_str));
                continue;
            }
            _ => continue,
        };
        for (_, table) in lookups.iter().filter(|(indices, _)| reads(*indices)) {
            let stored = |tensor: &&TensorProto| node.input.get(*table) == Some(&tensor.name);
            let rows = graph.initializer.iter().find(stored).and_then(|tensor| tensor.dims.first().copied());
            least = least.into_iter().chain(rows.and_then(|rows| usize::try_from(rows).ok())).min();
        }
    }
    least
}

/// Returns the row count of the smallest embedding matrix that `input` indexes, if any. Each index must be below it. If
/// constants are added to the indices first, the least of these constants is subtracted from the row count.
fn rows_looked_up(graph: &Graph, input: ValueId) -> Option<usize> {
    // Values that equal the input plus a constant, with the least such constant.
    let mut same = HashMap::from([(input, 0i64)]);
    let mut least: Option<usize> = None;
    for node in &graph.nodes {
        let id = |slot: usize| node.inputs.get(slot).copied().flatten();
        let offset = |slot: usize| id(slot).and_then(|id| same.get(&id).copied());
        match &*node.op {
            "Gather" if offset(1).is_some() => {
                let table = node.inputs[0].map(|id| &graph.value(id).shape);
                let axis = attr_int(&node.attributes, "axis", 0);
                let rows = table.and_then(|shape| {
                    let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                    shape.get(usize::try_from(axis).ok()?).copied()
                });
                let rows = rows.map(|rows| usize::try_from(rows as i64 - offset(1).unwrap_or(0)).unwrap_or(0));
                least = [least, rows].into_iter().flatten().min();
            }
            // Operators that only move values or change their type.
            "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Transpose" => {
                same.extend(offset(0).into_iter().flat_map(|offset| node.outputs.iter().map(move |id| (*id, offset))));
            }
            "Add" => {
                let constants = [(0, 1), (1, 0)].into_iter().find_map(|(numbers, constant)| {
                    let least = graph.constant(id(constant)?).and_then(|tensor| match &tensor.data {
                        TensorData::I64(values) => values.iter().copied().min(),
                        _ => None,
                    })?;
                    Some(offset(numbers)?.saturating_add(least))
                });
                same.extend(constants.into_iter().flat_map(|offset| node.outputs.iter().map(move |id| (*id, offset))));
            }
            _ => {}
        }
    }
    least
}

/// Extents without the batch.
pub(crate) fn fixed(spec: &TensorSpec) -> Vec<usize> {
    spec.shape.iter().filter_map(|dim| if let Dim::Fixed(extent) = dim { Some(*extent) } else { None }).collect()
}
