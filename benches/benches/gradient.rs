//! Per-sample gradients of the MNIST CNN, 16 samples, one thread, on each available backend.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use damper::grad::{DeriveOptions, Loss, derive};
use damper::graph::{Graph, GraphOptions};
use damper::onnx;
use damper::onnx::TensorRef;
use damper::runtime::{Choice, SessionSpec, open};
use std::path::Path;

const BATCH: usize = 16;

fn benches(c: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models/mnist-cnn.onnx");
    let model = onnx::load(&path).unwrap();
    let graph = Graph::from_model(&model, &GraphOptions::default()).unwrap();
    let grad = derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy)).unwrap();
    let plan = SessionSpec {
        batch: BATCH,
        threads: 1,
        inputs: grad.inputs.iter().chain(&grad.labels).chain(&grad.parameters).cloned().collect(),
        outputs: grad.outputs.iter().filter(|spec| spec.name.starts_with("dp.grad.")).cloned().collect(),
    };
    let images: Vec<f32> = (0..BATCH * 784).map(|i| ((i * 31) % 256) as f32 / 255.0).collect();
    let labels: Vec<i64> = (0..BATCH as i64).map(|i| i % 10).collect();
    let trained = |name: &str| graph.parameters.iter().find(|parameter| parameter.name == name).unwrap();
    let params: Vec<&[f32]> =
        grad.parameters.iter().map(|spec| trained(&spec.name).initial.as_f32().unwrap()).collect();
    let mut inputs = vec![TensorRef::F32(&images), TensorRef::I64(&labels)];
    inputs.extend(params.iter().map(|param| TensorRef::F32(param)));

    let mut group = c.benchmark_group("per-sample gradients, MNIST CNN, 16 samples");
    group.throughput(Throughput::Elements(BATCH as u64));
    for choice in [Choice::Tract, Choice::Portable, Choice::Ort] {
        match open(choice) {
            Ok(backend) => {
                let mut session = backend.load(&grad.model, &plan).unwrap();
                group.bench_function(backend.name(), |b| b.iter(|| session.run(&inputs, &mut |_| ()).unwrap()));
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}

criterion_group!(gradient, benches);
criterion_main!(gradient);
