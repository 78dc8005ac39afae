//! Attention under masks that hide every key from some queries, as exporters write it. The expected gradients are from
//! `scaled_dot_product_attention` of PyTorch 2.15 in float64. They are compared on every backend and readout.

use super::builder::{Case, GraphBuilder};
use super::readouts::{self, PerSample};
use super::run::{Feed, Runner};
use super::{BATCH, Closeness, emit, to_f64};
use damper_grad::Readout;
use damper_onnx::graph::{DType, ValueId};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{data_type, make_attr_int, make_attr_ints};

/// Four samples of three tokens with two features.
const X: [f32; 24] = [
    -0.99, -0.79, -0.43, -0.95, -0.06, -0.88, 0.54, 0.49, 0.19, 0.78, -0.1, 0.6, -0.7, -0.2, -0.89, -0.08, -0.65, 0.9,
    0.69, 0.75, 0.3, -0.57, 0.9, -0.98,
];
const LABELS: [f32; 24] = [
    -0.64, -0.62, -0.41, 0.2, -0.76, -0.77, -0.48, 0.61, -0.72, -0.9, -0.87, -0.49, -0.26, -0.99, -0.47, 0.02, 0.16,
    -0.14, -0.11, -0.65, 0.51, -0.24, -0.68, -0.24,
];
/// Tokens on the left that are not padding.
const KEPT: [f32; 12] = [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
/// Weights of queries, keys and values.
const WEIGHTS: [[f32; 4]; 3] = [[-0.42, 2.77, 1.56, -1.21], [-0.43, 2.65, 1.93, 0.75], [-1.08, 2.5, 1.29, -1.34]];
const LOSSES: [f64; 4] = [0.557787479229029, 1.0219006430062194, 1.9017815793863935, 0.21204999395410232];
/// Gradients of each weight, for each sample.
const GRADIENTS: [[[f64; 4]; 4]; 3] = [
    [
        [-0.01107205, 0.02218689, -0.001716352, -0.07335331],
        [0.0003999386, 0.001622562, -0.002399631, -0.009735375],
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ],
    [
        [-0.04420018, 0.05726686, -0.008825557, -0.002055985],
        [-0.005093428, 0.005223628, -0.003161437, 0.003242251],
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ],
    [
        [-0.2089851, 0.2860915, -0.1322852, -0.008631309],
        [0.1022905, 0.01957191, 0.7790034, 0.001104697],
        [-0.3689833, 0.58305, 0.5109, -0.8073],
        [0.0, 0.0, 0.0, 0.0],
    ],
];

/// Guard that replaces NaN probabilities.
#[derive(Clone, Copy, PartialEq)]
enum Guard {
    IsNaN,
    NotIsNaN,
    EqualToItself,
    /// By the mask: a query with a visible key keeps its row.
    BySight,
    /// `IsNaN`, after a transpose.
    Transposed,
    /// `IsNaN`, after a reshape and a cast.
    Reshaped,
}

const GUARDS: [Guard; 6] =
    [Guard::IsNaN, Guard::NotIsNaN, Guard::EqualToItself, Guard::BySight, Guard::Transposed, Guard::Reshaped];

/// True for each key that a query sees: `[1, 3, 3]`.
fn seen(b: &mut GraphBuilder) -> ValueId {
    let kept = b.input(&[3]);
    let zero = b.floats(&[], &[0.0]);
    let kept = b.node_of(DType::Bool, "Greater", &[kept, zero], vec![], &[1, 3]);
    let kept = b.node_of(DType::Bool, "Reshape", &[kept], vec![], &[1, 1, 3]);
    let causal = b.bools(&[3, 3], &[true, false, false, true, true, false, true, true, true]);
    b.node_of(DType::Bool, "And", &[causal, kept], vec![], &[1, 3, 3])
}

fn perm() -> Vec<AttributeProto> {
    vec![make_attr_ints("perm", &[0, 2, 1])]
}

fn axis(axis: i64) -> Vec<AttributeProto> {
    vec![make_attr_int("axis", axis)]
}

/// With `is_filled`, the mask overwrites the scores, like `masked_fill`. Otherwise it is added.
fn attention(guard: Guard, is_filled: bool) -> Case {
    const SCORES: [usize; 3] = [1, 3, 3];
    let mut b = GraphBuilder::new(17);
    let x = b.input(&[3, 2]);
    let seen = seen(&mut b);
    let [q, k, v] = [(); 3].map(|()| {
        let w = b.param(&[2, 2]);
        b.node("MatMul", &[x, w], vec![], &[1, 3, 2])
    });
    let k = b.node("Transpose", &[k], perm(), &[1, 2, 3]);
    let scores = b.node("MatMul", &[q, k], vec![], &SCORES);
    let scale = b.floats(&[], &[0.5f64.sqrt()]);
    let scores = b.node("Mul", &[scores, scale], vec![], &SCORES);
    let [zero, hidden] = [0.0, f64::NEG_INFINITY].map(|value| b.floats(&[], &[value]));
    let scores = if is_filled {
        b.node("Where", &[seen, scores, hidden], vec![], &SCORES)
    } else {
        let mask = b.node("Where", &[seen, zero, hidden], vec![], &SCORES);
        b.node("Add", &[scores, mask], vec![], &SCORES)
    };
    let choose = |b: &mut GraphBuilder, p: ValueId| {
        let is_nan = b.node_of(DType::Bool, "IsNaN", &[p], vec![], &SCORES);
        b.node("Where", &[is_nan, zero, p], vec![], &SCORES)
    };
    let p = match guard {
        Guard::Transposed => {
            let scores = b.node("Transpose", &[scores], perm(), &SCORES);
            let p = b.node("Softmax", &[scores], axis(-2), &SCORES);
            let p = b.node("Transpose", &[p], perm(), &SCORES);
            choose(&mut b, p)
        }
        Guard::Reshaped => {
            let scores = b.node("Reshape", &[scores], vec![], &[1, 1, 3, 3]);
            let p = b.node("Softmax", &[scores], axis(3), &[1, 1, 3, 3]);
            let to = vec![make_attr_int("to", data_type(DType::F32) as i64)];
            let p = b.node("Cast", &[p], to, &[1, 1, 3, 3]);
            let p = b.node("Reshape", &[p], vec![], &SCORES);
            choose(&mut b, p)
        }
        _ => {
            let p = b.node("Softmax", &[scores], axis(-1), &SCORES);
            match guard {
                Guard::NotIsNaN => {
                    let is_nan = b.node_of(DType::Bool, "IsNaN", &[p], vec![], &SCORES);
                    let is_number = b.node_of(DType::Bool, "Not", &[is_nan], vec![], &SCORES);
                    b.node("Where", &[is_number, p, zero], vec![], &SCORES)
                }
                Guard::EqualToItself => {
                    let is_number = b.node_of(DType::Bool, "Equal", &[p, p], vec![], &SCORES);
                    b.node("Where", &[is_number, p, zero], vec![], &SCORES)
                }
                Guard::BySight => {
                    let counted = b.node("Cast", &[seen], vec![make_attr_int("to", 1)], &SCORES);
                    let most = b.node("ReduceMax", &[counted], vec![make_attr_ints("axes", &[2])], &[1, 3, 1]);
                    let sees = b.node_of(DType::Bool, "Greater", &[most, zero], vec![], &[1, 3, 1]);
                    b.node("Where", &[sees, p, zero], vec![], &SCORES)
                }
                _ => choose(&mut b, p),
            }
        }
    };
    let y = b.node("MatMul", &[p, v], vec![], &[1, 3, 2]);
    b.case("attention", y)
}

fn feeds() -> Vec<Feed> {
    let data = [X.to_vec(), KEPT.to_vec(), LABELS.to_vec()].map(Feed::Float);
    data.into_iter().chain(WEIGHTS.map(|w| Feed::Float(w.to_vec()))).collect()
}

#[test]
fn gradients_are_those_of_pytorch() {
    for (guard, is_filled) in GUARDS.into_iter().flat_map(|guard| [(guard, false), (guard, true)]) {
        let mut case = attention(guard, is_filled);
        for again in [false, true] {
            case.options.checkpoint_activations = again;
            let grad = emit(&case);
            let runners = [
                Some(Runner::tract(&grad, BATCH)),
                Some(Runner::portable(&grad, BATCH).expect("attention has portable kernels")),
                Runner::ort(&grad, BATCH),
            ];
            for mut runner in runners.into_iter().flatten() {
                let outputs = runner.run(&grad, &feeds(), BATCH);
                Closeness::FiniteDifference.check(&to_f64(&outputs[0]), &LOSSES, "loss");
                let first = grad.outputs.len() - grad.parameters.len();
                for (got, want) in outputs[first..].iter().zip(&GRADIENTS) {
                    Closeness::FiniteDifference.check(&to_f64(got), &want.concat(), "gradient");
                }
            }
        }
    }
}

#[test]
fn readouts_are_those_of_pytorch() {
    let want = PerSample::recorded(GRADIENTS.map(|of| of.map(|sample| sample.to_vec()).to_vec()).to_vec());
    for make in readouts::BACKENDS {
        readouts::check_against(&attention(Guard::IsNaN, false), 1, &feeds(), &want, make, 0.0);
    }
}

// The factors for a multiplying reader are finite.
#[test]
fn factors_are_finite() {
    let mut case = attention(Guard::IsNaN, false);
    case.options.readout = Readout::Factored { positions: true, groups: false };
    let grad = emit(&case);
    for make in readouts::BACKENDS {
        let Some(mut runner) = make(&grad, BATCH) else { continue };
        let outputs = runner.run(&grad, &feeds(), BATCH);
        assert!(outputs.iter().flatten().all(|v| v.is_finite()));
    }
}

// A row of logarithms that a guard replaced has a zero gradient, and other rows keep theirs.
#[test]
fn replaced_row_has_no_gradient() {
    let mut b = GraphBuilder::new(17);
    let (x, w) = (b.input(&[2, 3]), b.param(&[2, 3]));
    let scores = b.node("Add", &[x, w], vec![], &[1, 2, 3]);
    let log = b.node("LogSoftmax", &[scores], axis(-1), &[1, 2, 3]);
    let zero = b.floats(&[], &[0.0]);
    let is_nan = b.node_of(DType::Bool, "IsNaN", &[log], vec![], &[1, 2, 3]);
    let y = b.node("Where", &[is_nan, zero, log], vec![], &[1, 2, 3]);
    let grad = emit(&b.case("logarithms", y));
    let row = [0.5f32, -1.0, 0.25];
    let data = [&[f32::NEG_INFINITY; 3], &row[..]].concat();
    let feeds = [data, vec![0.0; 6], vec![0.0; 6]].map(Feed::Float);
    let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
    let logs = row.map(|v| f64::from(v) - sum.ln());
    // For the mean of six squares.
    let total: f64 = logs.iter().map(|log| log / 3.0).sum();
    let of_row = logs.map(|log| log / 3.0 - log.exp() * total);
    let runners = [Some(Runner::tract(&grad, 1)), Some(Runner::portable(&grad, 1).unwrap()), Runner::ort(&grad, 1)];
    for mut runner in runners.into_iter().flatten() {
        let got = runner.run(&grad, &feeds, 1);
        let got = to_f64(got.last().unwrap());
        Closeness::FiniteDifference.check(&got, &[&[0.0; 3], &of_row[..]].concat(), "gradient");
    }
}

// A row without a guard stays NaN.
#[test]
fn row_without_guard_is_not_a_number() {
    let mut b = GraphBuilder::new(17);
    let (x, w) = (b.input(&[3]), b.param(&[3]));
    let scores = b.node("Add", &[x, w], vec![], &[1, 3]);
    let p = b.node("Softmax", &[scores], axis(-1), &[1, 3]);
    let first = b.bools(&[3], &[true, false, false]);
    let zero = b.floats(&[], &[0.0]);
    let y = b.node("Where", &[first, p, zero], vec![], &[1, 3]);
    let grad = emit(&b.case("one entry", y));
    let feeds = [vec![f32::NEG_INFINITY; 3], vec![1.0; 3], vec![0.0; 3]].map(Feed::Float);
    let runners = [Some(Runner::tract(&grad, 1)), Some(Runner::portable(&grad, 1).unwrap()), Runner::ort(&grad, 1)];
    for mut runner in runners.into_iter().flatten() {
        let got = runner.run(&grad, &feeds, 1);
        assert!(got.last().unwrap().iter().all(|v| v.is_nan()), "{got:?}");
    }
}
