//! Bits of a sample's gradient, on each backend, at the physical batch and with the reads of training. They do not
//! depend on the sample's row, its chunk, or the other rows.

#[path = "support/grads.rs"]
#[expect(dead_code, reason = "graphs are derived here")]
mod grads;
#[path = "support/models.rs"]
mod models;

use damper::grad::{DeriveOptions, GradGraph, Loss, Readout, derive};
use damper::graph::{DType, Graph};
use damper::onnx::TensorRef;
use damper::onnx::TensorSpec;
use damper::runtime::{Backend, Session};
use damper_testing::Random;
use grads::{choice, graph, released, run, session, values};
use models::{SKELETONS, backends, drawn};

/// Physical batches: that of `damper train`, and others that a user may choose.
const ROWS: [usize; 3] = [16, 5, 32];

const SHIPPED: [&str; 5] =
    ["digits-linear.onnx", "digits-mlp.onnx", "digits-cnn.onnx", "digits-cnn-groupnorm.onnx", "mnist-cnn.onnx"];

/// Other exports, with other operators in their graphs.
const EXPORTS: [&str; 7] = [
    "exports/digits-cnn.opset21.dynamo.onnx",
    "exports/digits-cnn-groupnorm.dynamo.onnx",
    "exports/groupnorm.opset21.dynamo.onnx",
    "exports/instancenorm.torchscript.onnx",
    "exports/operators.torchscript.onnx",
    "exports/merged-norms.unfolded.onnx",
    "exports/mnist-cnn.dynamo.onnx",
];

/// Number of rows of every embedding matrix.
const TOKENS: usize = 200;

/// One row of an input.
#[derive(Clone)]
enum Row {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// Returns data and labels of samples, in the order of `grad`'s inputs. Images have a dark margin and grey, white and
/// black pixels, like digits, so equal pixels meet in max pools. Sentences have any length.
fn samples(grad: &GradGraph, count: usize) -> Vec<Vec<Row>> {
    let logits = grad.outputs.iter().find(|spec| !spec.name.starts_with("dp.")).expect("an output of the model");
    let classes = logits.shape.last().map_or(1, |dim| dim.extent(1));
    let mut draw = Random(7);
    let mut sample = |number: usize| {
        let end = 1 + draw.below(64);
        let mut row = |spec: &TensorSpec| {
            let width = spec.elements(1);
            let mut pixel = |at: usize| match draw.unit() {
                _ if at < width / 8 => 0.0,
                u if u < 0.4 => 0.0,
                u if u < 0.5 => 1.0,
                u => u,
            };
            match (spec.dtype, &*spec.name) {
                (DType::F32, _) => Row::F32((0..width).map(&mut pixel).collect()),
                (_, "attention_mask") => Row::I64((0..width).map(|at| i64::from(at < end)).collect()),
                (_, "dp.labels") if width == 1 => Row::I64(vec![(number % classes) as i64]),
                (_, "dp.labels") => {
                    let label = |at: usize| if at < end { draw.below(classes) as i64 } else { -100 };
                    Row::I64((0..width).map(label).collect())
                }
                _ => Row::I64((0..width).map(|_| draw.below(TOKENS) as i64).collect()),
            }
        };
        grad.inputs.iter().chain(&grad.labels).map(&mut row).collect()
    };
    (0..count).map(&mut sample).collect()
}

/// Returns loss and gradients of each row of a chunk, as bits.
fn chunk(
    session: &mut dyn Session,
    grad: &GradGraph,
    samples: &[Vec<Row>],
    values: &[Vec<f32>],
    rows: &[usize],
) -> Vec<Vec<Vec<u32>>> {
    let n = rows.len();
    let joined = |input: usize| {
        let mut all = samples[rows[0]][input].clone();
        for &sample in &rows[1..] {
            match (&mut all, &samples[sample][input]) {
                (Row::F32(all), Row::F32(row)) => all.extend(row),
                (Row::I64(all), Row::I64(row)) => all.extend(row),
                _ => unreachable!("an input has one type"),
            }
        }
        all
    };
    let data: Vec<Row> = (0..samples[0].len()).map(joined).collect();
    let fed = data.iter().map(|row| match row {
        Row::F32(row) => TensorRef::F32(row),
        Row::I64(row) => TensorRef::I64(row),
    });
    let fed: Vec<_> = fed.chain(values.iter().map(|v| TensorRef::F32(v))).collect();
    let outputs = run(session, &fed);
    assert_eq!(outputs.len(), released(grad).len());
    let of = |row: usize, output: &Vec<f32>| {
        let width = output.len() / n;
        output[row * width..][..width].iter().map(|x| x.to_bits()).collect()
    };
    (0..n).map(|row| outputs.iter().map(|output| of(row, output)).collect()).collect()
}

/// Returns chunks in which samples have other neighbours, are in other rows, or are padding. The samples of the first
/// chunk are in about `places` rows each.
fn chunks(n: usize, places: usize) -> Vec<Vec<usize>> {
    let mut chunks = Vec::new();
    for turn in (1..n).step_by(n.div_ceil(places)) {
        chunks.push((0..n).map(|row| (row + turn) % n).collect());
    }
    // A chunk of few samples. The first is repeated in the remaining rows.
    for samples in [1, 2, n / 2, n - 1] {
        chunks.push((0..n).map(|row| if row < samples { row } else { 0 }).collect());
    }
    // Random samples in random rows.
    let mut draw = Random(9);
    for _ in 0..places / 2 {
        chunks.push((0..n).map(|_| draw.below(3 * n)).collect());
    }
    chunks
}

/// Returns the outputs in which a sample's bits depend on other rows.
fn moved(backend: &dyn Backend, file: &str, graph: &Graph, n: usize, places: usize, scale: f32) -> Vec<String> {
    let as_trained = DeriveOptions {
        readout: Readout::Factored { positions: true, groups: false },
        ..DeriveOptions::new(Loss::SoftmaxCrossEntropy)
    };
    let grad = derive(graph, &as_trained).unwrap();
    let mut values = values(graph, &grad);
    values.iter_mut().flatten().for_each(|value| *value *= scale);
    let samples = samples(&grad, 3 * n);
    let mut session = session(backend, &grad, n);
    let mut own = Vec::new();
    for first in (0..3 * n).step_by(n) {
        let rows: Vec<usize> = (first..first + n).collect();
        own.extend(chunk(session.as_mut(), &grad, &samples, &values, &rows));
    }
    let mut moved = Vec::new();
    for rows in chunks(n, places) {
        let again = chunk(session.as_mut(), &grad, &samples, &values, &rows);
        for (row, &sample) in rows.iter().enumerate() {
            for (output, (a, b)) in own[sample].iter().zip(&again[row]).enumerate() {
                if a != b {
                    let name = &released(&grad)[output].name;
                    moved.push(format!("{file}, {n} rows: {name} of sample {sample} in row {row} of {rows:?}"));
                }
            }
        }
    }
    moved
}

// The bits of a sample do not depend on its row or on its chunk.
#[test]
fn sample_bits_ignore_row_and_chunk() {
    for backend in backends() {
        let mut all = Vec::new();
        for file in SHIPPED.iter().chain(&EXPORTS) {
            let graph = graph(file, &choice(file)).unwrap();
            for n in ROWS {
                // With the file's values, and with larger values.
                for scale in [1.0, 1.7] {
                    all.extend(moved(backend.as_ref(), file, &graph, n, 16, scale));
                }
            }
        }
        assert_none(&all, backend.as_ref());
    }
}

/// The bits of a sample depend on that sample alone, in the models without weights. With the backend at a place of
/// [`backends`], if it is there.
fn check_skeletons(place: usize) {
    let rows = |name: &str| match name {
        "resnet18-groupnorm" | "wrn-16-4-groupnorm" => 3,
        "vit-tiny" => 5,
        _ => 16,
    };
    if let Some(backend) = backends().get(place) {
        // Large models: fewer chunks.
        let of = |name: &&str| moved(backend.as_ref(), name, &drawn(name), rows(name), 5, 1.0);
        let all: Vec<String> = SKELETONS.iter().flat_map(of).collect();
        assert_none(&all, backend.as_ref());
    }
}

#[test]
fn skeletons_keep_bits_on_tract() {
    check_skeletons(0);
}

#[test]
fn skeletons_keep_bits_on_portable() {
    check_skeletons(1);
}

#[test]
fn skeletons_keep_bits_on_ort() {
    check_skeletons(2);
}

#[test]
fn skeletons_keep_bits_on_ort_standard() {
    check_skeletons(3);
}

fn assert_none(moved: &[String], backend: &dyn Backend) {
    let shown: Vec<_> = moved.iter().take(20).collect();
    assert!(moved.is_empty(), "{} on {}: {shown:#?}", moved.len(), backend.name());
}
