//! The first sessions of a process. This is a separate test program, because a process has only one first session.
//! Without precautions three of ten runs fail.

use damper::graph::DType;
use damper::onnx::TensorRef;
use damper::onnx::{Dim, TensorSpec};
use damper::onnx::{Extent, make_node, make_value_info, pb};
use damper::runtime::{Choice, SessionSpec, open};
use std::sync::Barrier;
use std::thread;

const THREADS: usize = 8;

#[test]
fn they_can_be_made_in_many_threads_at_once() {
    let Ok(backend) = open(Choice::Ort) else { return damper_testing::skip("ort", "there is no onnxruntime") };
    let value = |name| make_value_info(name, DType::F32, &[Extent::Batch]);
    let graph = pb::GraphProto {
        name: "g".into(),
        node: vec![make_node("Neg", "negate", &["x"], &["y"], vec![])],
        input: vec![value("x")],
        output: vec![value("y")],
        ..Default::default()
    };
    let opset = pb::OperatorSetIdProto { domain: String::new(), version: 17 };
    let model = pb::ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() };
    let spec = |name: &str| TensorSpec { name: name.into(), dtype: DType::F32, shape: vec![Dim::Batch] };
    let plan = SessionSpec { batch: 2, threads: 1, inputs: vec![spec("x")], outputs: vec![spec("y")] };
    drop(backend);
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let backend = open(Choice::Ort).unwrap();
                start.wait();
                let mut session = backend.load(&model, &plan).unwrap();
                session.run(&[TensorRef::F32(&[1.0, -2.0])], &mut |made| assert_eq!(made, [&[-1.0, 2.0]])).unwrap();
            });
        }
    });
}
