//! Operators of the forward pass that are written in other operators.
//!
//! Reductions of rows (and what the runtimes build on them: softmax, normalisations) add in an order that depends on where
//! a row lies in memory, so a sample's bits would depend on its place in the batch. They are written with the
//! [`Emitter`]'s sums, which do not; its logarithm likewise. A normalisation's parts are then shared with its backward pass.

use super::emit::{Emitter, Var};
use super::normalize::Normalized;
use super::rules::{pad, resize};
use crate::graph::{BatchAxis, Graph, Node, Origin, TensorData};
use crate::onnx::{attr_float, attr_int, attr_ints};

/// The output of `node` in other operators; `None` where it is written as it stands.
pub fn lower(em: &mut Emitter, graph: &Graph, node: &Node, inputs: &[Option<Var>]) -> Option<Var> {
    let x = inputs.first()?.clone()?;
    let output = &graph.values[node.outputs[0].0];
    let int = |name: &str, default| attr_int(&node.attributes, name, default);
    let epsilon = || f64::from(attr_float(&node.attributes, "epsilon", 1e-5));
    match node.op.as_str() {
        "Expand" => {
            let lead = output.shape.len() - x.rank();
            let axis = x.batch.map(|b| BatchAxis { axis: b.axis + lead, ..b });
            let aligned = em.reshape(&x, &[&vec![1; lead], &x.shape[..]].concat(), axis);
            Some(em.expand(&aligned, &output.shape, output.batch))
        }
        "Log" if x.batch.is_some() => Some(em.log(&x)),
        "Softmax" | "LogSoftmax" => {
            let axis = [int("axis", -1).rem_euclid(x.rank() as i64) as usize];
            let top = em.reduce_max(&x, &axis, true);
            let shifted = em.sub(&x, &top);
            let exp = em.unary("Exp", &shifted);
            let sum = em.reduce_sum(&exp, &axis, true);
            if node.op == "Softmax" {
                return Some(em.div(&exp, &sum));
            }
            let log = em.log(&sum);
            Some(em.sub(&shifted, &log))
        }
        "ReduceSum" | "ReduceMean" => {
            let axes = reduced_axes(graph, node, x.rank())?;
            let keep = int("keepdims", 1) != 0;
            Some(if node.op == "ReduceSum" { em.reduce_sum(&x, &axes, keep) } else { em.reduce_mean(&x, &axes, keep) })
        }
        "GlobalAveragePool" => {
            let axes: Vec<usize> = (2..x.rank()).collect();
            Some(em.reduce_mean(&x, &axes, true))
        }
        "MatMul" => column(em, &x, inputs.get(1)?.as_ref()?, output.batch),
        "Gemm" if output.shape.contains(&1) && output.batch.is_some() => Some(gemm(em, node, inputs)),
        "Pad" => pad::forward(em, graph, node, &x),
        "Resize" => resize::forward(em, graph, node, &x),
        "InstanceNormalization" => {
            let axes: Vec<usize> = (2..x.rank()).collect();
            let entries = [&[x.shape[1]], &vec![1; axes.len()][..]].concat();
            let normalized = Normalized::new(em, &x, axes, epsilon());
            Some(affine(em, &normalized.value, inputs, &entries))
        }
        "GroupNormalization" => {
            let groups = int("num_groups", 1) as usize;
            let width = x.shape[1] / groups;
            let grouped = [x.shape[0], groups, width, x.shape[2..].iter().product()];
            let xg = em.reshape(&x, &grouped, x.batch);
            let normalized = Normalized::new(em, &xg, vec![2, 3], epsilon());
            let entries = if em.opset >= 21 { [groups, width, 1] } else { [groups, 1, 1] };
            let y = affine(em, &normalized.value, inputs, &entries);
            Some(em.reshape(&y, &x.shape, x.batch))
        }
        _ => None,
    }
}

/// A product of a batch with a column or a vector, or of a row with samples along the columns.
fn column(em: &mut Emitter, a: &Var, b: &Var, batch: Option<BatchAxis>) -> Option<Var> {
    batch?;
    if b.rank() == 1 && a.rank() > 1 {
        let column = em.reshape(b, &[b.len(), 1], None);
        let product = em.matmul(a, &column);
        return Some(em.reshape(&product, &a.shape[..a.rank() - 1], batch));
    }
    let is_narrow = a.rank() > 1 && b.rank() > 1 && (b.shape[b.rank() - 1] == 1 || a.shape[a.rank() - 2] == 1);
    is_narrow.then(|| em.matmul(a, b))
}

/// `α·A'·B' + β·C`.
fn gemm(em: &mut Emitter, node: &Node, inputs: &[Option<Var>]) -> Var {
    let flag = |name| attr_int(&node.attributes, name, 0) != 0;
    let factor = |name| f64::from(attr_float(&node.attributes, name, 1.0));
    let factors = [0, 1].map(|i| inputs[i].clone().expect("both factors are given"));
    let product = em.gemm(&factors[0], flag("transA"), &factors[1], flag("transB"));
    let product = em.scale(&product, factor("alpha"));
    match inputs.get(2).cloned().flatten() {
        Some(bias) => {
            let bias = em.scale(&bias, factor("beta"));
            em.add(&product, &bias)
        }
        None => product,
    }
}

/// `x · γ + β`, both reshaped to `entries`.
fn affine(em: &mut Emitter, x: &Var, inputs: &[Option<Var>], entries: &[usize]) -> Var {
    let entry = |i: usize| inputs[i].clone().expect("scale and bias are given");
    let gamma = em.reshape(&entry(1), entries, None);
    let beta = em.reshape(&entry(2), entries, None);
    let scaled = em.mul(x, &gamma);
    em.add(&scaled, &beta)
}

/// The axes a reduction of a tensor of `rank` axes sums over; `None` where they are not known now.
pub fn reduced_axes(graph: &Graph, node: &Node, rank: usize) -> Option<Vec<usize>> {
    let listed = match (attr_ints(&node.attributes, "axes"), node.inputs.get(1).copied().flatten()) {
        (Some(axes), _) => axes.to_vec(),
        (None, None) => vec![],
        (None, Some(id)) => match &graph.values[id.0].origin {
            Origin::Constant(tensor) => match &tensor.data {
                TensorData::I64(axes) => axes.clone(),
                _ => return None,
            },
            _ => return None,
        },
    };
    if listed.is_empty() && attr_int(&node.attributes, "noop_with_empty_axes", 0) == 0 {
        return Some((0..rank).collect());
    }
    Some(listed.iter().map(|a| a.rem_euclid(rank as i64) as usize).collect())
}
