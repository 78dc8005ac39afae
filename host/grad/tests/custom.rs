//! Custom operators are emitted if possible, and a standard model has none.

use damper_grad::{DeriveOptions, Loss, derive};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::pb::ModelProto;
use damper_onnx::{CUSTOM_DOMAIN, load};
use std::collections::BTreeSet;
use std::path::Path;

/// Custom operators of a model.
fn custom(model: &ModelProto) -> BTreeSet<&str> {
    let nodes = model.graph.iter().flat_map(|graph| &graph.node).filter(|node| node.domain == CUSTOM_DOMAIN);
    nodes.map(|node| &*node.op_type).collect()
}

#[test]
fn norms_softmax_and_gelu_are_custom_operators() {
    let expected: [(&str, &[&str]); 6] = [
        ("mnist-cnn.onnx", &["MaxPoolGrad", "TanhGrad"]),
        ("digits-mlp.onnx", &["Softmax", "TanhGrad"]),
        ("digits-cnn-groupnorm.onnx", &["Normalize", "NormalizeGrad", "Softmax"]),
        ("exports/foreign/bert.opset18.dynamo.onnx", &["Normalize", "NormalizeGrad", "Softmax", "SoftmaxGrad"]),
        ("exports/foreign/bert.opset14.torchscript.onnx", &["Gelu", "GeluGrad"]),
        ("exports/foreign/gpt2.opset15.torchscript.onnx", &["Gelu", "GeluGrad"]),
    ];
    for (file, expected) in expected {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models").join(file);
        let graph = Graph::from_model(&load(&path).unwrap(), &GraphOptions::default()).unwrap();
        let grad = derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy)).unwrap();
        let found = custom(&grad.model);
        assert!(expected.iter().all(|op| found.contains(op)), "{file}: {found:?}");
        assert!(custom(&grad.standard_model()).is_empty(), "{file}");
    }
}
