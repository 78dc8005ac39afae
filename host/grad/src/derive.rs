//! Derives the ONNX model of per-sample gradients from a graph.

mod assemble;
mod frozen;
mod sweep;

use super::derive_error::DeriveError;
use super::emit::{BATCH_FIRST, Emitter, Var, reshape_target};
use super::factor::KernelFactors;
use super::grad_graph::GradGraph;
use super::grad_graph::KernelWindows;
use super::loss;
use super::lower::lower;
use super::options::DeriveOptions;
use super::readout::{
    ClipInputs, GradOutputs, GradStrategy, ParamGrad, Readout, clipped_sum, factored, norms, per_sample, strategies,
};
use assemble::{assemble, spec};
use damper_onnx::graph::{DType, Graph, Node, Origin, Parameter};
use damper_onnx::pb::NodeProto;
pub use frozen::FrozenPart;
use sweep::sweep;

/// Oldest supported opset for emitted operators.
const OLDEST_OPSET: i64 = 13;

/// Reason not to train a parameter that the loss does not depend on. Only noise would change it.
pub const UNREACHED: &str = "not trained: no gradient reaches it from the loss";

/// Name of the input with the weights of the evaluation points.
const MIX: &str = "dp.mix";

/// Emits the gradient graph of `graph`.
///
/// # Errors
/// [`DeriveError`], which names the node, output or flag at fault, and the fix.
pub fn derive(graph: &Graph, options: &DeriveOptions) -> Result<GradGraph, DeriveError> {
    let points = options.points.get();
    check(graph, points)?;
    let mut em = Emitter::new(graph.opset);
    let current = emit_forward(&mut em, graph, Point { index: 0, of: points, current: None });
    let loss = loss::emit(&mut em, graph, &current, options)?;
    let mut passes = Vec::with_capacity(points);
    passes.push(0..em.position());
    let dtype = loss.loss.dtype;
    let mix = Var { name: MIX.into(), dtype, shape: vec![points], batch: None };
    let seed = weighted(&mut em, &loss.seed.1, &mix, 0);
    let mut grads = sweep(&mut em, graph, &current, vec![(loss.seed.0, seed)])?;
    for index in 1..points {
        let start = em.position();
        let forward = emit_forward(&mut em, graph, Point { index, of: points, current: Some(&current) });
        let (output, seed) = loss::emit(&mut em, graph, &forward, options)?.seed;
        passes.push(start..em.position());
        let seed = weighted(&mut em, &seed, &mix, index);
        let there = sweep(&mut em, graph, &forward, vec![(output, seed)])?;
        for (grad, there) in grads.iter_mut().zip(there) {
            *grad = match (grad.take(), there) {
                (Some(sum), Some(there)) => Some(sum.sum(there, &mut em)),
                (sum, there) => sum.or(there),
            };
        }
    }
    let (mut reads, mut unreached) = (Vec::new(), Vec::new());
    for (parameter, grad) in graph.parameters.iter().zip(grads).filter(|(p, _)| p.trained) {
        let value = &graph.values[parameter.value.0];
        match grad {
            Some(grad) => reads.push(ParamGrad { grad, dtype: value.dtype, shape: value.shape.clone() }),
            None => unreached.push(parameter.name.clone()),
        }
    }
    let grads = reads;
    if grads.is_empty() {
        return Err(DeriveError::new(
            "the model",
            "no gradient reaches a trained parameter from the loss",
            "choose another `output`, or what is trained with `train`",
        ));
    }
    if !unreached.is_empty() {
        let mut graph = graph.clone();
        for parameter in graph.parameters.iter_mut().filter(|p| unreached.contains(&p.name)) {
            (parameter.trained, parameter.reason) = (false, UNREACHED.into());
        }
        return Ok(GradGraph { unreached, ..derive(&graph, options)? });
    }

    let strategies = strategies(&grads, options.readout);
    let bounds = (options.readout == Readout::ClippedSum).then(|| ClipInputs::new(dtype));
    let ReadOut { norm, each, windows, left_to_reader, made } =
        read_out(&mut em, graph, &grads, options.readout, &strategies, bounds.as_ref(), dtype);

    let outputs = name_outputs(&mut em, graph, &current, loss.loss, norm, each, options.readout);
    let mix = (points > 1).then_some(mix);
    let (clip, weight) = bounds.map(|bounds| (bounds.clip, bounds.weight)).unzip();
    let own = [loss.labels, mix, clip, weight].map(|var| var.map(|var| spec(&var.name, &var)));
    let passes = if options.checkpoint_activations { passes } else { vec![] };
    let mut grad = GradGraph { strategies, windows, ..assemble(em, graph, &current, points, own, &outputs, &passes) };
    grad.cost.multiply_adds += left_to_reader;
    // The reader computes them one sample at a time, or a few at a time if they are small.
    grad.cost.fixed_bytes += (made * size_of::<f32>()) as u64;
    if options.checkpoint_activations {
        // If the outputs need as much memory, recomputation saves nothing.
        let plain = derive(graph, &DeriveOptions { checkpoint_activations: false, ..options.clone() })?;
        if plain.cost.sample_bytes <= grad.cost.sample_bytes {
            return Ok(plain);
        }
    }
    Ok(grad)
}

/// Outputs computed from the gradients.
#[derive(Default)]
struct ReadOut {
    norm: Option<Var>,
    /// Outputs other than the norm, by name.
    each: Vec<(String, Var)>,
    windows: Vec<(String, KernelWindows)>,
    /// Multiply-adds per sample that the reader of the factors needs.
    left_to_reader: u64,
    /// Number of gradient entries that the reader computes from factors.
    made: usize,
}

/// Emits the outputs for `readout`. `bounds` are those of a clipped sum.
fn read_out(
    em: &mut Emitter,
    graph: &Graph,
    grads: &[ParamGrad],
    readout: Readout,
    strategies: &[GradStrategy],
    bounds: Option<&ClipInputs>,
    dtype: DType,
) -> ReadOut {
    let mut out = ReadOut::default();
    let names = || graph.trained().map(|parameter| &parameter.name);
    let named = |prefix, vars: Vec<Var>| names().map(|name| format!("{prefix}{name}")).zip(vars).collect();
    (out.norm, out.each) = match (readout, bounds) {
        (Readout::PerSample, _) => (None, named("dp.grad.", per_sample(em, grads))),
        (Readout::Factored { positions, groups }, _) => {
            let parts = factored(em, grads, positions, groups).into_iter().zip(grads);
            let parts = names().zip(parts).flat_map(|(name, (part, grad))| {
                out.left_to_reader += part.multiply_adds();
                out.made +=
                    if matches!(part, GradOutputs::Whole(_)) { 0 } else { grad.shape.iter().product::<usize>() };
                let (l, r) = match part {
                    GradOutputs::Whole(var) => return vec![(format!("dp.grad.{name}"), var)],
                    GradOutputs::Outer(l, r) | GradOutputs::Positions(l, r) | GradOutputs::Rows(l, r) => (l, r),
                    GradOutputs::Kernel(KernelFactors { left, input, window, groups }) => {
                        out.windows.push((name.clone(), KernelWindows { window, groups }));
                        (left, input)
                    }
                };
                vec![(format!("dp.left.{name}"), l), (format!("dp.right.{name}"), r)]
            });
            (None, parts.collect())
        }
        (Readout::ClippedSum, Some(bounds)) => {
            let (norm, sums) = clipped_sum(em, grads, strategies, bounds);
            (Some(norm), named("dp.sum.", sums))
        }
        _ => (Some(norms(em, grads, dtype, strategies)), vec![]),
    };
    out
}

/// Names the outputs: the loss, the model's own outputs, the norm and `each`. Naming renames tensors, so it must come
/// last.
fn name_outputs(
    em: &mut Emitter,
    graph: &Graph,
    current: &[Option<Var>],
    loss: Var,
    norm: Option<Var>,
    each: Vec<(String, Var)>,
    readout: Readout,
) -> Vec<(String, Var)> {
    let mut outputs = vec![("dp.loss".to_string(), loss)];
    em.output(&outputs[0].1, "dp.loss");
    for id in &graph.outputs {
        let (name, var) = (&graph.values[id.0].name, current[id.0].clone().expect("outputs are emitted"));
        // An output that is also an input, parameter or constant has no node that writes it.
        if *var.name != **name {
            em.output(&var, name);
        }
        outputs.push((name.clone(), var));
    }
    let public: Vec<&str> = graph.inputs.iter().chain(&graph.outputs).map(|id| &*graph.values[id.0].name).collect();
    for (name, var) in norm.map(|norm| ("dp.norm".to_string(), norm)).into_iter().chain(each) {
        match readout {
            Readout::Factored { .. } if !public.contains(&&*em.original(&var.name)) => em.take_over(&var, &name),
            _ => em.output(&var, &name),
        }
        outputs.push((name, var));
    }
    outputs
}

/// `seed` times the weight of point `index`. The sweep is linear in its seed. So this weights the output gradients of
/// every factored gradient and every dense gradient once, at their smallest size.
fn weighted(em: &mut Emitter, seed: &Var, mix: &Var, index: usize) -> Var {
    if mix.shape == [1] {
        return seed.clone();
    }
    let weight = em.slice(mix, &[(0, index, 1, 1)]);
    let weight = em.cast(&weight, seed.dtype);
    let weight = em.reshape(&weight, &[], None);
    em.mul(seed, &weight)
}

fn check(graph: &Graph, points: usize) -> Result<(), DeriveError> {
    if graph.opset < OLDEST_OPSET {
        return Err(DeriveError::new(
            "the model",
            format!("it is written in operator set {}", graph.opset),
            format!("export it with operator set {OLDEST_OPSET} or later"),
        ));
    }
    let names = graph.values.iter().map(|v| &v.name).chain(graph.parameters.iter().map(|p| &p.name));
    if let Some(name) = names.into_iter().find(|n| n.starts_with("dp.")) {
        let remedy = "rename it in the model: names beginning with dp. are those of the gradient graph";
        return Err(DeriveError::new(format!("tensor {name}"), "its name begins with dp.", remedy));
    }
    if let Some(parameter) = graph.trained().find(|p| points > 1 && names_at_points(graph, p, points)) {
        let reason = format!("the model has a tensor {0}@k, the name of its value at point k", parameter.name);
        let remedy = "rename that tensor in the model, or leave `points` out";
        return Err(DeriveError::new(format!("parameter {}", parameter.name), reason, remedy));
    }
    if !graph.parameters.iter().any(|p| p.trained) {
        return Err(DeriveError::new("the model", "no parameter of it is trained", "choose some with `train`"));
    }
    Ok(())
}

/// Returns true if the model itself uses one of the names of a parameter at the evaluation points.
fn names_at_points(graph: &Graph, parameter: &Parameter, points: usize) -> bool {
    let at_point = |name: &str| {
        let index = name.strip_prefix(&*parameter.name).and_then(|rest| rest.strip_prefix('@'));
        index.and_then(|index| index.parse().ok()).is_some_and(|index: usize| index < points)
    };
    graph.values.iter().map(|v| &v.name).chain(graph.parameters.iter().map(|p| &p.name)).any(|name| at_point(name))
}

/// Evaluation point of gradients.
#[derive(Clone, Copy)]
struct Point<'a> {
    index: usize,
    of: usize,
    /// Forward pass at point 0. Values that do not depend on trained parameters are reused from it.
    current: Option<&'a [Option<Var>]>,
}

impl Point<'_> {
    /// Name of a trained parameter's input.
    fn parameter(self, name: &str) -> String {
        if self.of == 1 { name.into() } else { format!("{name}@{}", self.index) }
    }

    /// Name of a value in the forward pass. At point 0 it is the model's name.
    fn value(self, name: &str) -> String {
        if self.index == 0 { name.into() } else { format!("dp.at{}.{name}", self.index) }
    }
}

/// Emits the forward pass for the outputs. Returns the emitted tensor of each value.
fn emit_forward(em: &mut Emitter, graph: &Graph, point: Point<'_>) -> Vec<Option<Var>> {
    let mut needed = vec![false; graph.values.len()];
    for id in &graph.outputs {
        needed[id.0] = true;
    }
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|o| needed[o.0]) {
            // The gradient of `TopK` needs the indices.
            let places = if node.op == "TopK" { &node.outputs[..] } else { &[] };
            for id in node.inputs.iter().flatten().chain(places) {
                needed[id.0] = true;
            }
        }
    }
    if let Some(current) = point.current {
        let moves = depends_on_trained(graph);
        let mut forward = current.to_vec();
        for (i, v) in graph.values.iter().enumerate().filter(|&(i, _)| needed[i] && moves[i]) {
            let var = forward[i].as_mut().expect("needed");
            var.name = match &v.origin {
                Origin::Parameter(p) => point.parameter(&graph.parameters[*p].name),
                _ => point.value(&v.name),
            }
            .into();
        }
        for node in graph.nodes.iter().filter(|n| n.outputs.iter().any(|o| needed[o.0] && moves[o.0])) {
            emit_node(em, graph, &forward, node, point);
        }
        return forward;
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
                let name = if parameter.trained {
                    point.parameter(&parameter.name)
                } else {
                    em.initializer(&parameter.name, &parameter.initial);
                    parameter.name.clone()
                };
                forward[i] = Some(Var { name: name.into(), dtype: v.dtype, shape: v.shape.clone(), batch: None });
            }
            Origin::Constant(tensor) => forward[i] = Some(em.constant(tensor.clone())),
            Origin::Node { .. } => {
                let name = v.name.as_str().into();
                forward[i] = Some(Var { name, dtype: v.dtype, shape: v.shape.clone(), batch: v.batch });
            }
        }
    }
    for node in graph.nodes.iter().filter(|n| n.outputs.iter().any(|o| needed[o.0])) {
        emit_node(em, graph, &forward, node, point);
    }
    forward
}

/// For each value, true if it depends on trained parameters.
fn depends_on_trained(graph: &Graph) -> Vec<bool> {
    let mut depends = vec![false; graph.values.len()];
    for parameter in graph.trained() {
        depends[parameter.value.0] = true;
    }
    for node in &graph.nodes {
        if node.inputs.iter().flatten().any(|i| depends[i.0]) {
            for output in &node.outputs {
                depends[output.0] = true;
            }
        }
    }
    depends
}

fn emit_node(em: &mut Emitter, graph: &Graph, forward: &[Option<Var>], node: &Node, point: Point<'_>) {
    let inputs: Vec<Option<Var>> =
        node.inputs.iter().map(|id| id.map(|id| forward[id.0].clone().expect("in topological order"))).collect();
    let output = &graph.values[node.outputs[0].0];
    if let Some(lowered) = lower(em, graph, node, &inputs) {
        em.alias(&lowered, &point.value(&output.name));
        return;
    }
    let name = |v: &Option<Var>| v.as_ref().map_or(String::new(), |v| v.name.to_string());
    let mut input: Vec<String> = inputs.iter().map(name).collect();
    let mut attribute = node.attributes.clone();
    if node.op == "Reshape" {
        input.push(em.ints(&reshape_target(&output.shape, output.batch)).name.to_string());
        attribute.clear();
    }
    let written = NodeProto {
        name: point.value(&node.name),
        op_type: node.op.clone(),
        input,
        output: node.outputs.iter().map(|o| name(&forward[o.0])).collect(),
        attribute,
        ..Default::default()
    };
    let outputs: Vec<&Var> = node.outputs.iter().filter_map(|o| forward[o.0].as_ref()).collect();
    em.forward(written, &inputs.iter().flatten().collect::<Vec<_>>(), &outputs);
}
