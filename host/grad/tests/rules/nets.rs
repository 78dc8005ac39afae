//! Complete networks, as exporters write them, in canonical form.

use super::builder::{BATCH_FIRST, Case, GraphBuilder};
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{BatchAxis, ValueId};
use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints};

/// All networks.
pub fn cases() -> Vec<Case> {
    vec![
        mlp(),
        mnist_cnn(),
        group_norm_cnn("net: GroupNorm as an operator, operator set 18", Norm::Operator(18)),
        group_norm_cnn("net: GroupNorm as an operator, operator set 21", Norm::Operator(21)),
        group_norm_cnn("net: GroupNorm written out", Norm::WrittenOut),
        separable_cnn(),
        attention(),
    ]
}

/// 8 → 16 → 12 → 5 with Relu and Tanh.
pub fn mlp() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.input(&[8]);
    let h = linear(&mut b, x, 8, 16);
    let h = b.node("Relu", &[h], vec![], &[1, 16]);
    let (w, c) = (b.param_in(&[16, 12], -0.25, 0.25), b.param_in(&[12], -0.25, 0.25));
    let product = b.node("MatMul", &[h, w], vec![], &[1, 12]);
    let sum = b.node("Add", &[product, c], vec![], &[1, 12]);
    let h = b.node("Tanh", &[sum], vec![], &[1, 12]);
    let y = linear(&mut b, h, 12, 5);
    b.case_with("net: MLP", y, DeriveOptions::new(Loss::SoftmaxCrossEntropy))
}

/// MNIST network of Papernot et al. (arXiv 2007.14191): 26,010 parameters.
pub fn mnist_cnn() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.input(&[1, 28, 28]);
    let (strides, pool) = (make_attr_ints("strides", &[2, 2]), || vec![make_attr_ints("kernel_shape", &[2, 2])]);
    let pads = make_attr_ints("pads", &[2, 2, 3, 3]);
    let h = conv(&mut b, x, &[16, 1, 8, 8], vec![strides.clone(), pads], &[16, 13, 13]);
    let h = b.node("Tanh", &[h], vec![], &[1, 16, 13, 13]);
    let h = b.node("MaxPool", &[h], pool(), &[1, 16, 12, 12]);
    let h = conv(&mut b, h, &[32, 16, 4, 4], vec![strides], &[32, 5, 5]);
    let h = b.node("Tanh", &[h], vec![], &[1, 32, 5, 5]);
    let h = b.node("MaxPool", &[h], pool(), &[1, 32, 4, 4]);
    let h = b.node("Reshape", &[h], vec![], &[1, 512]);
    let h = linear(&mut b, h, 512, 32);
    let h = b.node("Tanh", &[h], vec![], &[1, 32]);
    let y = linear(&mut b, h, 32, 10);
    b.case_with("net: MNIST CNN", y, DeriveOptions::new(Loss::SoftmaxCrossEntropy))
}

enum Norm {
    Operator(i64),
    WrittenOut,
}

fn group_norm_cnn(name: &str, norm: Norm) -> Case {
    let mut b = GraphBuilder::new(if let Norm::Operator(opset) = norm { opset } else { 17 });
    let x = b.input(&[3, 8, 8]);
    let same = || vec![make_attr_ints("pads", &[1, 1, 1, 1])];
    let h = conv(&mut b, x, &[8, 3, 3, 3], same(), &[8, 8, 8]);
    let h = match norm {
        Norm::Operator(opset) => {
            let entries = if opset >= 21 { 8 } else { 4 };
            let (gamma, beta) = (b.param_in(&[entries], 0.5, 1.5), b.param(&[entries]));
            b.node("GroupNormalization", &[h, gamma, beta], vec![make_attr_int("num_groups", 4)], &[1, 8, 8, 8])
        }
        Norm::WrittenOut => {
            let (gamma, beta) = (b.param_in(&[8, 1, 1], 0.5, 1.5), b.param(&[8, 1, 1]));
            let (one, zero) = (b.floats(&[4], &[1.0; 4]), b.floats(&[4], &[0.0; 4]));
            let grouped = b.node("Reshape", &[h], vec![], &[1, 4, 128]);
            let epsilon = vec![make_attr_float("epsilon", 1e-5)];
            let h = b.node("InstanceNormalization", &[grouped, one, zero], epsilon, &[1, 4, 128]);
            let h = b.node("Reshape", &[h], vec![], &[1, 8, 8, 8]);
            let h = b.node("Mul", &[h, gamma], vec![], &[1, 8, 8, 8]);
            b.node("Add", &[h, beta], vec![], &[1, 8, 8, 8])
        }
    };
    let h = b.node("Relu", &[h], vec![], &[1, 8, 8, 8]);
    let pool = vec![make_attr_ints("kernel_shape", &[2, 2]), make_attr_ints("strides", &[2, 2])];
    let h = b.node("MaxPool", &[h], pool, &[1, 8, 4, 4]);
    let h = conv(&mut b, h, &[6, 8, 3, 3], same(), &[6, 4, 4]);
    let h = b.node("Tanh", &[h], vec![], &[1, 6, 4, 4]);
    let h = b.node("GlobalAveragePool", &[h], vec![], &[1, 6, 1, 1]);
    let h = b.node("Reshape", &[h], vec![], &[1, 6]);
    let y = linear(&mut b, h, 6, 5);
    b.case_with(name, y, DeriveOptions::new(Loss::SoftmaxCrossEntropy))
}

fn separable_cnn() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.input(&[2, 9, 9]);
    let h = conv(&mut b, x, &[4, 2, 3, 3], vec![make_attr_ints("dilations", &[2, 2])], &[4, 5, 5]);
    let h = b.node("LeakyRelu", &[h], vec![make_attr_float("alpha", 0.1)], &[1, 4, 5, 5]);
    let depthwise =
        vec![make_attr_int("group", 4), make_attr_ints("pads", &[1, 1, 1, 1]), make_attr_ints("strides", &[2, 2])];
    let h = conv(&mut b, h, &[4, 1, 3, 3], depthwise, &[4, 3, 3]);
    let h = b.node("Sigmoid", &[h], vec![], &[1, 4, 3, 3]);
    let h = conv(&mut b, h, &[6, 4, 1, 1], vec![], &[6, 3, 3]);
    let h = b.node("Tanh", &[h], vec![], &[1, 6, 3, 3]);
    let h = conv(&mut b, h, &[6, 3, 2, 2], vec![make_attr_int("group", 2)], &[6, 2, 2]);
    let h = b.node("AveragePool", &[h], vec![make_attr_ints("kernel_shape", &[2, 2])], &[1, 6, 1, 1]);
    let h = b.node("Reshape", &[h], vec![], &[1, 6]);
    let y = linear(&mut b, h, 6, 3);
    b.case_with("net: dilated, depthwise, pointwise and grouped CNN", y, DeriveOptions::new(Loss::BceWithLogits))
}

/// `torch.nn.MultiheadAttention` with positions first. Heads are merged with the batch, `[T, N·h, d]`, and rows are
/// `[T·N, E]`.
fn attention() -> Case {
    let mut b = GraphBuilder::new(17);
    let second = Some(BatchAxis { axis: 1, ..BATCH_FIRST });
    let (columns, stack) = (BatchAxis { axis: 1, outer: 1, inner: 2 }, BatchAxis { axis: 0, outer: 1, inner: 2 });
    let perm = |axes: &[i64]| vec![make_attr_ints("perm", axes)];
    let x = b.input(&[4, 6]);
    let x = b.node_at("Transpose", &[x], perm(&[1, 0, 2]), &[4, 1, 6], second);
    let (w, c) = (b.param_in(&[6, 18], -0.5, 0.5), b.param_in(&[18], -0.5, 0.5));
    let product = b.node_at("MatMul", &[x, w], vec![], &[4, 1, 18], second);
    let sum = b.node_at("Add", &[product, c], vec![], &[4, 1, 18], second);
    let [q, k, v] = [(0, [1, 0, 2]), (6, [1, 2, 0]), (12, [1, 0, 2])].map(|(start, axes)| {
        let bounds = [[start], [start + 6], [2], [1]].map(|list| b.ints(&list));
        let part = b.node_at("Slice", &[&[sum], &bounds[..]].concat(), vec![], &[4, 1, 6], second);
        let heads = b.node_at("Reshape", &[part], vec![], &[4, 2, 3], Some(columns));
        let shape = axes.map(|axis| [4, 2, 3][axis as usize]);
        b.node_at("Transpose", &[heads], perm(&axes), &shape, Some(stack))
    });
    let scores = b.node_at("MatMul", &[q, k], vec![], &[2, 4, 4], Some(stack));
    let weights = b.node_at("Softmax", &[scores], vec![], &[2, 4, 4], Some(stack));
    let mixed = b.node_at("MatMul", &[weights, v], vec![], &[2, 4, 3], Some(stack));
    let transposed = b.node_at("Transpose", &[mixed], perm(&[1, 0, 2]), &[4, 2, 3], Some(columns));
    let rows = Some(BatchAxis { axis: 0, outer: 4, inner: 1 });
    let flat = b.node_at("Reshape", &[transposed], vec![], &[4, 6], rows);
    let (w, c) = (b.param_in(&[6, 6], -0.5, 0.5), b.param_in(&[6], -0.5, 0.5));
    let out = b.node_at("Gemm", &[flat, w, c], vec![make_attr_int("transB", 1)], &[4, 6], rows);
    let apart = b.node_at("Reshape", &[out], vec![], &[4, 1, 6], second);
    let back = b.node_at("Transpose", &[apart], perm(&[1, 0, 2]), &[1, 4, 6], Some(BATCH_FIRST));
    let features = b.node("Reshape", &[back], vec![], &[1, 24]);
    let y = linear(&mut b, features, 24, 3);
    b.case_with("net: attention, heads merged with the batch", y, DeriveOptions::new(Loss::SoftmaxCrossEntropy))
}

/// As `torch.nn.Linear` is exported.
fn linear(b: &mut GraphBuilder, x: ValueId, from: usize, to: usize) -> ValueId {
    let reach = 1.0 / (from as f32).sqrt();
    let (w, c) = (b.param_in(&[to, from], -reach, reach), b.param_in(&[to], -reach, reach));
    b.node("Gemm", &[x, w, c], vec![make_attr_int("transB", 1)], &[1, to])
}

fn conv(
    b: &mut GraphBuilder,
    x: ValueId,
    weight: &[usize],
    attributes: Vec<damper_onnx::pb::AttributeProto>,
    output: &[usize],
) -> ValueId {
    let reach = 1.0 / (weight[1..].iter().product::<usize>() as f32).sqrt();
    let (w, c) = (b.param_in(weight, -reach, reach), b.param_in(&weight[..1], -reach, reach));
    b.node("Conv", &[x, w, c], attributes, &[&[1], output].concat())
}
