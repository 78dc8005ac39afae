//! Files of the workspace, and the available backends.

use damper::edit::init::{Override, initialise};
use damper::graph::{Graph, GraphOptions};
use damper::onnx;
use damper::runtime::{Backend, Choice, open};
use std::path::PathBuf;

/// Returns the path of a file in `onnx-models`.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onnx-models").join(file)
}

/// Models that are shipped without weights: `NAME.onnx`, and `vectors/NAME.npz` for the weights that `tests/models.rs`
/// draws.
#[allow(dead_code, reason = "not every test reads them")]
pub const SKELETONS: [&str; 7] =
    ["cifar-cnn", "cifar-cnn5", "resnet18-groupnorm", "wrn-16-4-groupnorm", "vit-tiny", "bert-tiny", "gpt-small"];

/// Returns the model with the weights of its vectors: seed 1, with norms and biases away from 1 and 0, which would hide
/// faults.
#[allow(dead_code, reason = "not every test reads them")]
pub fn drawn(name: &str) -> Graph {
    let model = onnx::load(&path(&format!("{name}.onnx"))).unwrap();
    let over = |pattern: &str, initialiser: &str| Override {
        pattern: pattern.into(),
        initialiser: initialiser.parse().unwrap(),
    };
    let mut overrides = vec![over("*.bias", "normal(0, 0.1)")];
    if name != "cifar-cnn" {
        overrides.push(over("*norm*.weight", "uniform(0.5, 1.5)"));
    }
    let (model, _) = initialise(&model, &GraphOptions::default(), &overrides, 1).unwrap();
    Graph::from_model(&model, &GraphOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns tract and the portable backend, and onnxruntime with its own and with standard operators if it is found.
pub fn backends() -> Vec<Box<dyn Backend>> {
    let mut found =
        vec![open(Choice::Tract).expect("tract is compiled in"), open(Choice::Portable).expect("it is compiled in")];
    match open(Choice::Ort) {
        Ok(ort) => found.extend([ort, open(Choice::OrtStandard).expect("it was opened")]),
        Err(error) => damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default()),
    }
    found
}
