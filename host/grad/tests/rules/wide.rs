//! Layers so wide, with so few positions, that norms use Gram matrices and no sample's gradient is materialised.

use super::builder::{BATCH_FIRST, Case, GraphBuilder};
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::{make_attr_int, make_attr_ints};

/// All kinds of use of a parameter.
pub fn cases() -> Vec<Case> {
    let mut linear = GraphBuilder::new(17);
    let (x, w, c) = (linear.input(&[48]), linear.param(&[40, 48]), linear.param(&[40]));
    let y = linear.node("Gemm", &[x, w, c], vec![make_attr_int("transB", 1)], &[1, 40]);
    let linear = linear.case("wide: a linear layer", y);

    let mut positions = GraphBuilder::new(17);
    let (x, w) = (positions.activation(&[3, 64]), positions.param_in(&[64, 48], -0.2, 0.2));
    let y = positions.node("MatMul", &[x, w], vec![], &[1, 3, 48]);
    let positions = positions.case("wide: a product over positions", y);

    let mut twice = GraphBuilder::new(17);
    let (x, w) = (twice.activation(&[2, 64]), twice.param_in(&[64, 64], -0.2, 0.2));
    let h = twice.node("MatMul", &[x, w], vec![], &[1, 2, 64]);
    let h = twice.node("Tanh", &[h], vec![], &[1, 2, 64]);
    let y = twice.node("MatMul", &[h, w], vec![], &[1, 2, 64]);
    let twice = twice.case("wide: a weight used twice", y);

    let mut transposed = GraphBuilder::new(17);
    let (x, w) = (transposed.activation(&[2, 48]), transposed.param_in(&[8, 8, 48], -0.2, 0.2));
    let matrix = transposed.node("Reshape", &[w], vec![], &[64, 48]);
    let matrix = transposed.node("Transpose", &[matrix], vec![], &[48, 64]);
    let y = transposed.node("MatMul", &[x, matrix], vec![], &[1, 2, 64]);
    let transposed = transposed.case("wide: a weight transposed and reshaped", y);

    let mut stacked = GraphBuilder::new(17);
    let (x, w) = (stacked.activation(&[64]), stacked.param_in(&[48, 8, 8], -0.2, 0.2));
    let order = vec![make_attr_ints("perm", &[1, 2, 0])];
    let last = stacked.node("Transpose", &[w], order, &[8, 8, 48]);
    let matrix = stacked.node("Reshape", &[last], vec![], &[64, 48]);
    let y = stacked.node("MatMul", &[x, matrix], vec![], &[1, 48]);
    let stacked = stacked.case("wide: a weight under two views", y);

    let mut heads = GraphBuilder::new(17);
    let (x, w) = (heads.activation(&[2, 3, 48]), heads.param_in(&[2, 48, 40], -0.2, 0.2));
    let y = heads.node("MatMul", &[x, w], vec![], &[1, 2, 3, 40]);
    let heads = heads.case("wide: a matrix a head", y);

    let conv = |name, group: i64, size: usize, input: usize, weight: [usize; 4]| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(&[input, size, size]), b.param_in(&weight, -0.1, 0.1), b.param(&weight[..1]));
        let out = size + 1 - weight[2];
        let y = b.node("Conv", &[x, w, c], vec![make_attr_int("group", group)], &[1, weight[0], out, out]);
        b.case(name, y)
    };

    let mut both = GraphBuilder::new(17);
    let (x, w) = (both.activation(&[2, 48]), both.param_in(&[48, 48], -0.2, 0.2));
    let h = both.node("MatMul", &[x, w], vec![], &[1, 2, 48]);
    let bias = both.node("Transpose", &[w], vec![], &[48, 48]);
    let squared = both.node("Mul", &[w, bias], vec![], &[48, 48]);
    let y = both.node("MatMul", &[h, squared], vec![], &[1, 2, 48]);
    let both = both.case("wide: a parameter with factored and dense uses", y);

    let mut frozen = GraphBuilder::new(17);
    let (x, w, v) = (frozen.input(&[48]), frozen.frozen(&[40, 48]), frozen.param_in(&[32, 40], -0.2, 0.2));
    let turn = || vec![make_attr_int("transB", 1)];
    let h = frozen.node("Gemm", &[x, w], turn(), &[1, 40]);
    let h = frozen.node("Tanh", &[h], vec![], &[1, 40]);
    let y = frozen.node("Gemm", &[h, v], turn(), &[1, 32]);
    let frozen = frozen.case_with("wide: below it a frozen layer", y, DeriveOptions::new(Loss::SoftmaxCrossEntropy));

    let mut unused = GraphBuilder::new(17);
    let (x, w) = (unused.input(&[48]), unused.param_in(&[48, 40], -0.2, 0.2));
    unused.param(&[3, 2]);
    unused.param(&[3, 2]);
    let y = unused.node("MatMul", &[x, w], vec![], &[1, 40]);
    let unused = unused.case("wide: beside parameters that the loss does not read", y);

    let embedding = |name, opset, tied: bool| {
        let mut b = GraphBuilder::new(opset);
        let (table, ids) = (b.param_in(&[40, 24], -0.5, 0.5), b.ids(&[3]));
        let first = vec![make_attr_int("axis", 0)];
        let rows = b.node_at("Gather", &[table, ids], first, &[1, 3, 24], Some(BATCH_FIRST));
        let rows = b.node("Tanh", &[rows], vec![], &[1, 3, 24]);
        if !tied {
            return b.case(name, rows);
        }
        let transposed = b.node("Transpose", &[table], vec![], &[24, 40]);
        let y = b.node("MatMul", &[rows, transposed], vec![], &[1, 3, 40]);
        b.case_with(name, y, DeriveOptions::new(Loss::SoftmaxCrossEntropy))
    };

    let mut stepped = GraphBuilder::new(17);
    let (x, w, v) = (stepped.input(&[48]), stepped.param_in(&[48, 40], -0.2, 0.2), stepped.param_in(&[40], -9.0, 9.0));
    let y = stepped.node("MatMul", &[x, w], vec![], &[1, 40]);
    let ten = stepped.floats(&[], &[10.0]);
    let finer = stepped.node("Mul", &[v, ten], vec![], &[40]);
    let steps = stepped.node("Floor", &[finer], vec![], &[40]);
    let y = stepped.node("Mul", &[y, steps], vec![], &[1, 40]);
    let stepped = stepped.case("wide: times steps of a parameter", y);

    vec![
        linear,
        positions,
        twice,
        transposed,
        stacked,
        heads,
        conv("wide: a convolution at four positions", 1, 4, 20, [32, 20, 3, 3]),
        conv("wide: a grouped convolution", 2, 3, 32, [48, 16, 2, 2]),
        both,
        frozen,
        unused,
        embedding("wide: an embedding", 17, false),
        embedding("wide: an embedding tied to the output layer", 17, true),
        embedding("wide: an embedding tied to the output layer, operator set 13", 13, true),
        stepped,
    ]
}
