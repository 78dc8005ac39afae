//! Assembles a model from the emitted nodes.

use super::super::cost::{Cost, count};
use super::super::emit::{Emitter, Known, Var};
use super::super::grad_graph::GradGraph;
use super::super::recompute::{EmittedNodes, checkpoint};
use damper_onnx::graph::Graph;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto};
use damper_onnx::{CUSTOM_DOMAIN, Dim, Extent, TensorSpec, lower_nodes, make_value_info};
use std::ops::Range;

/// Gradient graph of the nodes in `em`.
pub(super) fn assemble(
    em: Emitter,
    graph: &Graph,
    forward: &[Option<Var>],
    points: usize,
    [labels, mix, clip, weight]: [Option<TensorSpec>; 4],
    outputs: &[(String, Var)],
    checkpointed: &[Range<usize>],
) -> GradGraph {
    let inputs: Vec<TensorSpec> =
        graph.inputs.iter().filter_map(|i| forward[i.0].as_ref()).map(|v| spec(&v.name, v)).collect();
    let parameters: Vec<TensorSpec> = graph
        .trained()
        .map(|p| {
            let value = &graph.values[p.value.0];
            let shape = value.shape.iter().map(|&d| Dim::Fixed(d)).collect();
            TensorSpec { name: p.name.clone(), dtype: value.dtype, shape }
        })
        .collect();
    let opset = graph.opset;
    let (mut nodes, mut initializers, mut known) = em.finish();
    if !checkpointed.is_empty() {
        let outputs = outputs.iter().map(|(name, _)| name.as_str()).collect();
        let emitted = EmittedNodes { nodes, initializers: &mut initializers, known: &mut known, outputs: &outputs };
        nodes = checkpoint(emitted, checkpointed);
    }
    let model = model_of(opset, nodes, initializers, outputs);
    // Specifications cannot express a batch merged with other axes. Such an output is only in the model.
    let outputs = outputs.iter().filter(|(_, v)| !is_merged(v)).map(|(name, v)| spec(name, v)).collect();
    let mut grad = GradGraph {
        model,
        inputs,
        labels,
        parameters,
        points,
        mix,
        clip,
        weight,
        outputs,
        strategies: vec![],
        unreached: vec![],
        windows: vec![],
        cost: Cost::default(),
    };
    let feeds = grad.feeds();
    grad.cost = with_inputs(&mut grad.model, &feeds, &known);
    grad
}

/// Declares the inputs of `model`. Returns the cost of a run.
pub(super) fn with_inputs(model: &mut ModelProto, inputs: &[TensorSpec], known: &Known) -> Cost {
    let written = model.graph.get_or_insert_default();
    written.input = inputs.iter().map(value_info).collect();
    let kept = inputs.iter().map(|input| &input.name);
    let kept = kept.chain(written.initializer.iter().map(|tensor| &tensor.name));
    let kept = kept.chain(written.output.iter().map(|output| &output.name));
    let kept: Vec<&str> = kept.map(String::as_str).collect();
    // Counted after lowering to standard operators. No runtime needs more.
    let mut lowered = GraphProto { node: written.node.clone(), output: written.output.clone(), ..Default::default() };
    lower_nodes(&mut lowered, |_| false);
    count(&lowered.node, known, &kept)
}

/// Model of these nodes, without its inputs.
pub(super) fn model_of(
    opset: i64,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    outputs: &[(String, Var)],
) -> ModelProto {
    let imported = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let custom = nodes.iter().find(|node| node.domain == CUSTOM_DOMAIN).map(|_| imported(CUSTOM_DOMAIN, 1));
    ModelProto {
        // Newest version that the oldest supported runtimes read and that supports the opset.
        ir_version: if opset >= 21 { 10 } else { 8 },
        opset_import: [imported("", opset)].into_iter().chain(custom).collect(),
        producer_name: "damper".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(GraphProto {
            name: "damper".into(),
            node: nodes,
            initializer: initializers,
            output: outputs.iter().map(|(name, var)| merged_value_info(name, var)).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn is_merged(var: &Var) -> bool {
    var.batch.is_some_and(|b| b.outer * b.inner != 1)
}

pub(super) fn spec(name: &str, var: &Var) -> TensorSpec {
    let dim = |(i, &d): (usize, &usize)| match var.batch {
        Some(b) if b.axis == i => Dim::Batch,
        _ => Dim::Fixed(d),
    };
    TensorSpec { name: name.into(), dtype: var.dtype, shape: var.shape.iter().enumerate().map(dim).collect() }
}

fn value_info(spec: &TensorSpec) -> ValueInfoProto {
    let extent = |dim: &Dim| match dim {
        Dim::Batch => Extent::Batch,
        Dim::Fixed(d) => Extent::Fixed(*d),
    };
    make_value_info(&spec.name, spec.dtype, &spec.shape.iter().map(extent).collect::<Vec<_>>())
}

fn merged_value_info(name: &str, var: &Var) -> ValueInfoProto {
    let extent = |(i, &d): (usize, &usize)| match var.batch {
        Some(b) if b.axis == i && b.outer * b.inner == 1 => Extent::Batch,
        Some(b) if b.axis == i => Extent::Merged(b.outer * b.inner),
        _ => Extent::Fixed(d),
    };
    make_value_info(name, var.dtype, &var.shape.iter().enumerate().map(extent).collect::<Vec<_>>())
}
