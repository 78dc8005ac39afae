//! From a graph to the ONNX model of its per-sample gradients.

use super::emit::{BATCH_FIRST, Emitter, Var, reshape_target};
use super::loss;
use super::lower::lower;
use super::readout::{Readout, per_sample};
use super::refusal::Refusal;
use super::sweep::sweep;
use super::{DeriveOptions, Dim, GradGraph, TensorSpec};
use crate::graph::{Graph, Node, Origin};
use crate::onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use crate::onnx::{Extent, make_value_info};

/// The oldest operator set whose forms of the operators are emitted.
const OLDEST_OPSET: i64 = 13;

/// Emits the gradient graph of `graph`.
///
/// # Errors
/// [`Refusal`] names the node, output or flag at fault and what to do.
pub fn derive(graph: &Graph, options: &DeriveOptions) -> Result<GradGraph, Refusal> {
    check(graph)?;
    let mut em = Emitter::new(graph.opset);
    let forward = emit_forward(&mut em, graph);
    let loss = loss::emit(&mut em, graph, &forward, options)?;
    let grads = sweep(&mut em, graph, &forward, vec![loss.seed])?;

    let trained: Vec<_> = graph.parameters.iter().enumerate().filter(|(_, p)| p.trained).collect();
    let grads: Vec<_> = trained.iter().map(|&(i, _)| grads[i].clone()).collect();
    let shapes: Vec<_> =
        trained.iter().map(|(_, p)| (graph.values[p.value.0].dtype, graph.values[p.value.0].shape.clone())).collect();
    let read = match options.readout {
        Readout::PerSample => per_sample(&mut em, &grads, &shapes),
    };

    let mut outputs = vec![("dp.loss".to_string(), loss.loss)];
    em.output(&outputs[0].1, "dp.loss");
    for id in &graph.outputs {
        let var = forward[id.0].clone().expect("outputs are emitted");
        outputs.push((graph.values[id.0].name.clone(), var));
    }
    for ((_, parameter), var) in trained.iter().zip(&read) {
        let name = format!("dp.grad.{}", parameter.name);
        em.output(var, &name);
        outputs.push((name, var.clone()));
    }
    Ok(assemble(em, graph, &forward, loss.labels, &outputs))
}

fn check(graph: &Graph) -> Result<(), Refusal> {
    if graph.opset < OLDEST_OPSET {
        return Err(Refusal::new(
            "the model",
            format!("it is written in operator set {}", graph.opset),
            format!("export it with operator set {OLDEST_OPSET} or later"),
        ));
    }
    let names = graph.values.iter().map(|v| &v.name).chain(graph.parameters.iter().map(|p| &p.name));
    if let Some(name) = names.into_iter().find(|n| n.starts_with("dp.")) {
        let remedy = "rename it in the model: names beginning with dp. are those of the gradient graph";
        return Err(Refusal::new(format!("tensor {name}"), "its name begins with dp.", remedy));
    }
    if !graph.parameters.iter().any(|p| p.trained) {
        return Err(Refusal::new("the model", "no parameter of it is trained", "choose some with --train"));
    }
    Ok(())
}

/// Writes the forward pass that the outputs need; the emitted tensor of each value.
fn emit_forward(em: &mut Emitter, graph: &Graph) -> Vec<Option<Var>> {
    let mut needed = vec![false; graph.values.len()];
    for id in &graph.outputs {
        needed[id.0] = true;
    }
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|o| needed[o.0]) {
            for id in node.inputs.iter().flatten() {
                needed[id.0] = true;
            }
        }
    }
    let mut forward: Vec<Option<Var>> = vec![None; graph.values.len()];
    for id in &graph.inputs {
        let v = &graph.values[id.0];
        let var =
            Var { name: v.name.as_str().into(), dtype: v.dtype, shape: v.shape.clone(), batch: Some(BATCH_FIRST) };
        em.read_batch_size_from(var.clone());
        forward[id.0] = Some(var);
    }
    for (i, v) in graph.values.iter().enumerate().filter(|&(i, _)| needed[i]) {
        match &v.origin {
            Origin::Input => {}
            Origin::Parameter(p) => {
                let parameter = &graph.parameters[*p];
                if !parameter.trained {
                    em.initializer(&parameter.name, &parameter.initial);
                }
                let name = parameter.name.as_str().into();
                forward[i] = Some(Var { name, dtype: v.dtype, shape: v.shape.clone(), batch: None });
            }
            Origin::Constant(tensor) => forward[i] = Some(em.constant(tensor.clone())),
            Origin::Node { .. } => {
                let name = v.name.as_str().into();
                forward[i] = Some(Var { name, dtype: v.dtype, shape: v.shape.clone(), batch: v.batch });
            }
        }
    }
    for node in graph.nodes.iter().filter(|n| n.outputs.iter().any(|o| needed[o.0])) {
        emit_node(em, graph, &forward, node);
    }
    for id in &graph.outputs {
        // An output that is itself an input, parameter or constant has no node that writes it.
        let value = &graph.values[id.0];
        if let Origin::Constant(_) = value.origin {
            let var = forward[id.0].clone().expect("needed");
            em.output(&var, &value.name);
        }
    }
    forward
}

fn emit_node(em: &mut Emitter, graph: &Graph, forward: &[Option<Var>], node: &Node) {
    let inputs: Vec<Option<Var>> =
        node.inputs.iter().map(|id| id.map(|id| forward[id.0].clone().expect("in topological order"))).collect();
    let output = &graph.values[node.outputs[0].0];
    if let Some(lowered) = lower(em, graph, node, &inputs) {
        em.alias(&lowered, &output.name);
        return;
    }
    let name = |v: &Option<Var>| v.as_ref().map_or(String::new(), |v| v.name.to_string());
    let mut input: Vec<String> = inputs.iter().map(name).collect();
    let mut attribute = node.attributes.clone();
    if node.op == "Reshape" {
        input.push(em.ints(&reshape_target(&output.shape, output.batch)).name.to_string());
        attribute.clear();
    }
    em.forward(NodeProto {
        name: node.name.clone(),
        op_type: node.op.clone(),
        input,
        output: node.outputs.iter().map(|o| name(&forward[o.0])).collect(),
        attribute,
        ..Default::default()
    });
}

fn assemble(
    em: Emitter,
    graph: &Graph,
    forward: &[Option<Var>],
    labels: Option<Var>,
    outputs: &[(String, Var)],
) -> GradGraph {
    let inputs: Vec<TensorSpec> =
        graph.inputs.iter().filter_map(|i| forward[i.0].as_ref()).map(|v| spec(&v.name, v)).collect();
    let labels = labels.map(|v| spec(&v.name, &v));
    let parameters: Vec<TensorSpec> = graph
        .parameters
        .iter()
        .filter(|p| p.trained)
        .map(|p| {
            let value = &graph.values[p.value.0];
            let shape = value.shape.iter().map(|&d| Dim::Fixed(d)).collect();
            TensorSpec { name: p.name.clone(), dtype: value.dtype, shape }
        })
        .collect();
    let opset = graph.opset;
    let (nodes, initializers) = em.finish();
    let model = ModelProto {
        // The newest that the oldest supported runtimes read, and that knows the operator set.
        ir_version: if opset >= 21 { 10 } else { 8 },
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: opset }],
        producer_name: "damper".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(GraphProto {
            name: "damper".into(),
            node: nodes,
            initializer: initializers,
            input: inputs.iter().chain(&labels).chain(&parameters).map(value_info).collect(),
            output: outputs.iter().map(|(name, var)| merged_value_info(name, var)).collect(),
            ..Default::default()
        }),
        ..Default::default()
    };
    // A batch merged with other axes has no place in a specification; such an output stays in the model alone.
    let outputs = outputs.iter().filter(|(_, v)| !is_merged(v)).map(|(name, v)| spec(name, v)).collect();
    GradGraph { model, inputs, labels, parameters, outputs }
}

fn is_merged(var: &Var) -> bool {
    var.batch.is_some_and(|b| b.outer * b.inner != 1)
}

fn spec(name: &str, var: &Var) -> TensorSpec {
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
