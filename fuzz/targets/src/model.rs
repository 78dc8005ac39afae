//! ONNX files: bytes, model, graph, gradient graph, bytes.

use damper::grad::{DeriveOptions, Loss, LossReduction, Readout, derive};
use damper::graph::{Graph, GraphOptions, initializers, support};
use damper::onnx::pb::ModelProto;
use damper::onnx::{decode, encode};
use std::num::NonZeroUsize;

/// Decodes any bytes as a model. Their number chooses how it is derived.
pub fn model(bytes: &[u8]) {
    if let Ok(model) = decode("fuzzed.onnx", bytes) {
        stages(&model, bytes.len());
    }
}

/// Runs the stages of `damper inspect` and `damper derive` on a model. `how` chooses among the options.
pub(crate) fn stages(model: &ModelProto, how: usize) {
    assert!(decode("again.onnx", &encode(model)).is_ok());
    let options = GraphOptions {
        shape: if how.is_multiple_of(2) { vec![] } else { vec![("sequence".into(), 3)] },
        ..GraphOptions::default()
    };
    let _ = initializers(model, &options);
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    nodes.for_each(|node| drop(support(&node.domain, &node.op_type)));
    let graph = match Graph::from_model(model, &options) {
        Ok(graph) => graph,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!graph.to_string().is_empty());
    let loss = match how / 2 % 4 {
        0 | 1 => Loss::SoftmaxCrossEntropy,
        2 => Loss::Mse,
        _ => Loss::BceWithLogits,
    };
    let output = graph.outputs.first().map(|id| graph.value(*id).name.clone());
    for (readout, points) in [
        (Readout::PerSample, 1),
        (Readout::Norms, 1),
        (Readout::ClippedSum, 2),
        (Readout::Factored { positions: true, groups: false }, 1),
    ] {
        let options = DeriveOptions {
            output: output.clone(),
            reduction: if (how / 8).is_multiple_of(2) { LossReduction::Mean } else { LossReduction::Sum },
            readout,
            points: NonZeroUsize::new(points).expect("a number of points"),
            ..DeriveOptions::new(loss.clone())
        };
        match derive(&graph, &options) {
            Ok(grad) => {
                let bytes = encode(&grad.model);
                // Compared as bytes, because an initializer may hold NaN, which equals nothing.
                assert!(decode("derived.onnx", &bytes).is_ok_and(|again| encode(&again) == bytes));
                assert_eq!(grad.strategies.len(), grad.parameters.len());
            }
            Err(refusal) => return assert!(!refusal.to_string().is_empty()),
        }
    }
}
