//! Which bits a sample's gradient has, on each backend, at the physical batch that training uses: they are the sample's
//! own, whatever its row, its chunk, and the other rows.

#[path = "support/grads.rs"]
mod grads;
#[path = "support/models.rs"]
mod models;

use damper::autodiff::{Dim, GradGraph, Loss};
use damper::backend::{Backend, Input, Session};
use damper::graph::GraphOptions;
use grads::{grad_graph, graph, run, session, values};
use models::backends;

/// Physical batches: that of `damper train`, and others that a user may choose.
const ROWS: [usize; 3] = [16, 5, 32];

const SHIPPED: [&str; 4] = ["digits-mlp.onnx", "digits-cnn.onnx", "digits-cnn-groupnorm.onnx", "mnist-cnn.onnx"];

/// Other exports, whose graphs hold other operators.
const EXPORTS: [&str; 7] = [
    "exports/digits-cnn.opset21.dynamo.onnx",
    "exports/digits-cnn-groupnorm.dynamo.onnx",
    "exports/groupnorm.opset21.dynamo.onnx",
    "exports/instancenorm.torchscript.onnx",
    "exports/operators.torchscript.onnx",
    "exports/merged-norms.unfolded.onnx",
    "exports/mnist-cnn.dynamo.onnx",
];

/// A fixed sequence in [0, 1).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }

    fn below(&mut self, end: usize) -> usize {
        (f64::from(self.next()) * end as f64) as usize
    }
}

/// Images with a dark margin and grey, white and black pixels, like digits: their equal pixels meet in max pools.
fn images(grad: &GradGraph, samples: usize) -> Vec<Vec<f32>> {
    let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 };
    let width: usize = grad.inputs[0].shape.iter().map(fixed).product();
    let mut draw = Draw(7);
    let mut pixel = |at: usize| match draw.next() {
        _ if at < width / 8 => 0.0,
        u if u < 0.4 => 0.0,
        u if u < 0.5 => 1.0,
        u => u,
    };
    (0..samples).map(|_| (0..width).map(&mut pixel).collect()).collect()
}

/// Loss and gradients of each row of a chunk, as bits.
fn chunk(
    session: &mut dyn Session,
    grad: &GradGraph,
    images: &[Vec<f32>],
    values: &[Vec<f32>],
    rows: &[usize],
) -> Vec<Vec<Vec<u32>>> {
    let n = rows.len();
    let x: Vec<f32> = rows.iter().flat_map(|&sample| images[sample].iter().copied()).collect();
    let labels: Vec<i64> = rows.iter().map(|&sample| (sample % 10) as i64).collect();
    let fed: Vec<_> =
        [Input::F32(&x), Input::I64(&labels)].into_iter().chain(values.iter().map(|v| Input::F32(v))).collect();
    let outputs = run(session, &fed);
    assert_eq!(outputs.len(), 1 + grad.parameters.len());
    let of = |row: usize, output: &Vec<f32>| {
        let width = output.len() / n;
        output[row * width..][..width].iter().map(|x| x.to_bits()).collect()
    };
    (0..n).map(|row| outputs.iter().map(|output| of(row, output)).collect()).collect()
}

/// Chunks in which samples come with other neighbours, in other rows, and as padding.
fn chunks(n: usize) -> Vec<Vec<usize>> {
    let mut chunks = Vec::new();
    // The samples of the first chunk, each in many rows; with up to sixteen rows in every row.
    for turn in (1..n).step_by(n.div_ceil(16)) {
        chunks.push((0..n).map(|row| (row + turn) % n).collect());
    }
    // A chunk of few samples: the first one repeated into the rows that are left.
    for samples in [1, 2, n / 2, n - 1] {
        chunks.push((0..n).map(|row| if row < samples { row } else { 0 }).collect());
    }
    // Any samples anywhere.
    let mut draw = Draw(9);
    for _ in 0..8 {
        chunks.push((0..n).map(|_| draw.below(3 * n)).collect());
    }
    chunks
}

/// The outputs in which a sample's bits were not its own.
fn moved(backend: &dyn Backend, file: &str, n: usize, scale: f32) -> Vec<String> {
    let grad = grad_graph(file, Loss::SoftmaxCrossEntropy);
    let mut values = values(&graph(file, &GraphOptions::default()).unwrap(), &grad);
    values.iter_mut().flatten().for_each(|value| *value *= scale);
    let images = images(&grad, 3 * n);
    let mut session = session(backend, &grad, n);
    let mut own = Vec::new();
    for first in (0..3 * n).step_by(n) {
        let rows: Vec<usize> = (first..first + n).collect();
        own.extend(chunk(session.as_mut(), &grad, &images, &values, &rows));
    }
    let mut moved = Vec::new();
    for rows in chunks(n) {
        let again = chunk(session.as_mut(), &grad, &images, &values, &rows);
        for (row, &sample) in rows.iter().enumerate() {
            for (output, (a, b)) in own[sample].iter().zip(&again[row]).enumerate() {
                if a != b {
                    let name = if output == 0 { "the loss" } else { grad.parameters[output - 1].name.as_str() };
                    moved.push(format!("{file}, {n} rows: {name} of sample {sample} in row {row} of {rows:?}"));
                }
            }
        }
    }
    moved
}

#[test]
fn a_samples_bits_are_its_own_in_any_row_of_any_chunk() {
    for backend in backends() {
        let mut all = Vec::new();
        for n in ROWS {
            for file in SHIPPED.iter().chain(&EXPORTS) {
                // At the file's values, and at larger ones.
                for scale in [1.0, 1.7] {
                    all.extend(moved(backend.as_ref(), file, n, scale));
                }
            }
        }
        let shown: Vec<_> = all.iter().take(20).collect();
        assert!(all.is_empty(), "{} on {}: {shown:#?}", all.len(), backend.name());
    }
}
