//! Lowering of forward-pass operators to other operators.
//!
//! In row reductions of the runtimes (also in softmax and normalisations), the order of sums depends on the address of
//! a row. So a sample's bits would depend on its position in the batch. These operators are lowered to the
//! [`Emitter`]'s sums, which do not have this fault. The same holds for its logarithm. Parts of a normalisation are
//! then shared with its backward pass.

use super::custom::{Exponentials, Normalized, softmax};
use super::emit::{Emitter, Var};
use super::integers::{known_ints, reduced_axes};
use super::lookup::{checked, found, numbers};
use super::rules::{
    celu, cum_sum, elu, gelu, hard_sigmoid, hard_swish, lp_normalization, mean_variance_normalization, mish, p_relu,
    pad, pow, reduce_l1, reduce_l2, reduce_log_sum, reduce_log_sum_exp, reduce_prod, reduce_sum_square, resize, selu,
    softplus, softsign, tan, thresholded_relu, trilu,
};
use damper_onnx::graph::{BatchAxis, Graph, Node, Tensor, TensorData, Value};
use damper_onnx::{attr_float, attr_int, attr_ints, attr_string, make_attr_int};

/// Output of `node` in other operators. `None` if the operator is emitted unchanged.
pub fn lower(em: &mut Emitter, graph: &Graph, node: &Node, inputs: &[Option<Var>]) -> Option<Var> {
    let x = inputs.first()?.clone()?;
    let output = &graph.values[node.outputs[0].0];
    let int = |name: &str, default| attr_int(&node.attributes, name, default);
    match node.op.as_str() {
        "Expand" => {
            let lead = output.shape.len() - x.rank();
            let axis = x.batch.map(|b| BatchAxis { axis: b.axis + lead, ..b });
            let aligned = em.reshape(&x, &[&vec![1; lead], &x.shape[..]].concat(), axis);
            Some(em.expand(&aligned, &output.shape, output.batch))
        }
        "CumSum" => {
            let axis = *known_ints(graph, node, 1)?.first()? as usize;
            let sums = if output.dtype.is_float() { cum_sum::sums } else { cum_sum::counts };
            Some(sums(em, &x, axis, int("exclusive", 0) != 0, int("reverse", 0) != 0))
        }
        "Gather" | "GatherElements" if inputs[1].as_ref().is_some_and(|index| index.batch.is_some()) => {
            let axis = int("axis", 0) as usize;
            let lookup = checked(em, inputs[1].as_ref()?, x.shape[axis]);
            let attributes = vec![make_attr_int("axis", axis as i64)];
            let (shape, inputs) = (output.shape.clone(), [&x, &lookup.index]);
            let rows = em.node(&node.op, &inputs, attributes, output.dtype, shape, output.batch);
            let behind = if node.op == "Gather" { x.rank() - 1 - axis } else { 0 };
            Some(found(em, &rows, &lookup.valid, behind))
        }
        "Log" if x.batch.is_some() => Some(em.log(&x)),
        "OneHot" => one_hot(em, node, &x, inputs[2].as_ref()?, output),
        "Slice" => slice(em, graph, node, x, output),
        op if op.starts_with("Reduce") && x.dtype.is_float() => {
            let axes = reduced_axes(graph, node, x.rank())?;
            reduction(em, op, &x, &axes, int("keepdims", 1) != 0, output)
        }
        "GlobalAveragePool" => {
            let axes: Vec<usize> = (2..x.rank()).collect();
            Some(em.reduce_mean(&x, &axes, true))
        }
        "MatMul" => column(em, &x, inputs.get(1)?.as_ref()?, output.batch),
        "Gemm" if output.shape.contains(&1) && output.batch.is_some() => Some(gemm(em, node, inputs)),
        "Pad" => pad::forward(em, graph, node, &x),
        "Resize" => resize::forward(em, graph, node, &x),
        "Mean" | "Sum" => {
            let terms = inputs.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()?;
            let sum = terms[1..].iter().fold(x, |sum, term| em.add(&sum, term));
            Some(if node.op == "Mean" { em.scale(&sum, 1.0 / terms.len() as f64) } else { sum })
        }
        "Pow" => {
            let known = node.inputs[1].and_then(|id| graph.constant(id));
            Some(pow::forward(em, &x, inputs[1].as_ref()?, known))
        }
        "Trilu" => {
            let diagonal = if inputs.len() < 2 { 0 } else { *known_ints(graph, node, 1)?.first()? };
            Some(trilu::triangle(em, &x, diagonal, int("upper", 1) != 0))
        }
        _ => normalization(em, node, &x, inputs).or_else(|| activation(em, node, &x, inputs)),
    }
}

fn one_hot(em: &mut Emitter, node: &Node, x: &Var, values: &Var, output: &Value) -> Option<Var> {
    let axis = attr_int(&node.attributes, "axis", -1) as usize;
    let index = checked(em, x, output.shape[axis]);
    // An index outside the table is hot nowhere.
    let outside = em.constant(Tensor { shape: vec![], data: TensorData::I64(vec![-1]) });
    let index = em.choose(&index.valid, &index.index, &outside);
    let mut shape = x.shape.clone();
    shape.insert(axis, 1);
    let column = em.reshape(&index, &shape, output.batch);
    let count = [&[output.shape[axis]], &vec![1; x.rank() - axis][..]].concat();
    let numbers = numbers(em, &count);
    let hot = em.compare("Equal", &column, &numbers);
    let [off, on] = [0, 1].map(|at| em.slice(values, &[(0, at, 1, 1)]));
    Some(em.choose(&hot, &on, &off))
}

fn slice(em: &mut Emitter, graph: &Graph, node: &Node, x: Var, output: &Value) -> Option<Var> {
    let [starts, axes, steps] = [1, 3, 4].map(|index| known_ints(graph, node, index));
    let (starts, axes, steps) = (starts?, axes?, steps?);
    if steps.iter().all(|&step| step == 1) {
        return None;
    }
    // By copies: tract's optimizer cannot take strided slices of merged axes.
    let cuts = starts.iter().zip(axes).zip(steps);
    Some(cuts.fold(x, |y, ((start, axis), step)| {
        let axis = *axis as usize;
        if (*step, y.shape[axis]) == (1, output.shape[axis]) {
            return y;
        }
        let indices: Vec<i64> = (0..output.shape[axis] as i64).map(|k| start + k * step).collect();
        em.gather(&y, &indices, axis)
    }))
}

/// Softmax and the operators that divide by a norm or a deviation.
fn normalization(em: &mut Emitter, node: &Node, x: &Var, inputs: &[Option<Var>]) -> Option<Var> {
    let int = |name: &str, default| attr_int(&node.attributes, name, default);
    let epsilon = || f64::from(attr_float(&node.attributes, "epsilon", 1e-5));
    match node.op.as_str() {
        "Softmax" | "LogSoftmax" => {
            let axis = int("axis", -1).rem_euclid(x.rank() as i64) as usize;
            if node.op == "Softmax" {
                return Some(softmax(em, x, axis));
            }
            let exponentials = Exponentials::new(em, x, &[axis]);
            let log = em.log(&exponentials.sum);
            Some(em.sub(&exponentials.shifted, &log))
        }
        "InstanceNormalization" => {
            let axes: Vec<usize> = (2..x.rank()).collect();
            let entries = [&[x.shape[1]], &vec![1; axes.len()][..]].concat();
            let normalized = Normalized::new(em, x, axes, epsilon(), &[]);
            Some(affine(em, &normalized.value, inputs, &entries))
        }
        "GroupNormalization" => {
            let groups = int("num_groups", 1) as usize;
            let width = x.shape[1] / groups;
            let grouped = [x.shape[0], groups, width, x.shape[2..].iter().product()];
            let xg = em.reshape(x, &grouped, x.batch);
            let normalized = Normalized::new(em, &xg, vec![2, 3], epsilon(), &[]);
            let entries = if em.opset >= 21 { [groups, width, 1] } else { [groups, 1, 1] };
            let y = affine(em, &normalized.value, inputs, &entries);
            Some(em.reshape(&y, &x.shape, x.batch))
        }
        "LayerNormalization" => {
            let first = int("axis", -1).rem_euclid(x.rank() as i64) as usize;
            let affine: Vec<&Var> = inputs[1..].iter().flatten().collect();
            Some(Normalized::new(em, x, (first..x.rank()).collect(), epsilon(), &affine).output)
        }
        "LpNormalization" => {
            let axis = int("axis", -1).rem_euclid(x.rank() as i64) as usize;
            Some(lp_normalization::forward(em, x, axis, int("p", 2)))
        }
        "MeanVarianceNormalization" => {
            let listed = attr_ints(&node.attributes, "axes").unwrap_or(&mean_variance_normalization::AXES);
            let axes = listed.iter().map(|a| a.rem_euclid(x.rank() as i64) as usize).collect();
            Some(Normalized::new(em, x, axes, mean_variance_normalization::EPSILON, &[]).value)
        }
        _ => None,
    }
}

/// Product of a batch with a column or a vector, or of a row with samples along the columns.
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

/// Elementwise functions. The runtimes' kernels for full SIMD vectors have other bits than those for the remainder.
fn activation(em: &mut Emitter, node: &Node, x: &Var, inputs: &[Option<Var>]) -> Option<Var> {
    let float = |name: &str, default| f64::from(attr_float(&node.attributes, name, default));
    Some(match node.op.as_str() {
        "Celu" => celu::celu(float("alpha", 1.0)).forward(em, x),
        "Acos" | "Acosh" | "Asin" | "Asinh" | "Atan" | "Atanh" | "Cos" | "Cosh" | "Sin" | "Sinh" => {
            em.alone(&node.op, x)
        }
        "Elu" => elu::Exponential::elu(float("alpha", 1.0)).forward(em, x),
        "Gelu" => gelu::forward(em, x, attr_string(&node.attributes, "approximate", "none") == "tanh"),
        "HardSigmoid" => hard_sigmoid::forward(em, x, float("alpha", 0.2), float("beta", 0.5)),
        "HardSwish" => hard_swish::forward(em, x),
        "Mish" => mish::forward(em, x),
        "PRelu" => p_relu::forward(em, x, inputs[1].as_ref()?),
        "Selu" => selu::selu(float("alpha", selu::ALPHA), float("gamma", selu::GAMMA)).forward(em, x),
        "Softplus" => softplus::forward(em, x),
        "Softsign" => softsign::forward(em, x),
        "Tan" => tan::forward(em, x),
        "ThresholdedRelu" => thresholded_relu::gate(em, x, x, float("alpha", 1.0)),
        _ => return None,
    })
}

/// Reduction of floats. `None` for extrema, which do not depend on the order.
fn reduction(em: &mut Emitter, op: &str, x: &Var, axes: &[usize], keep: bool, output: &Value) -> Option<Var> {
    Some(match op {
        "ReduceL1" => reduce_l1::forward(em, x, axes, keep),
        "ReduceL2" => reduce_l2::forward(em, x, axes, keep),
        "ReduceLogSum" => reduce_log_sum::forward(em, x, axes, keep),
        "ReduceLogSumExp" => {
            let y = reduce_log_sum_exp::forward(em, x, axes);
            em.reshape(&y, &output.shape, output.batch)
        }
        "ReduceMean" => em.reduce_mean(x, axes, keep),
        "ReduceProd" => {
            let y = reduce_prod::forward(em, x, axes);
            em.reshape(&y, &output.shape, output.batch)
        }
        "ReduceSum" => em.reduce_sum(x, axes, keep),
        "ReduceSumSquare" => reduce_sum_square::forward(em, x, axes, keep),
        _ => return None,
    })
}

/// `x · γ + β`, both reshaped to `entries`.
fn affine(em: &mut Emitter, x: &Var, inputs: &[Option<Var>], entries: &[usize]) -> Var {
    let entry = |i: usize| inputs[i].clone().expect("scale and bias are given");
    let gamma = em.reshape(&entry(1), entries, None);
    let beta = em.reshape(&entry(2), entries, None);
    let scaled = em.mul(x, &gamma);
    em.add(&scaled, &beta)
}
