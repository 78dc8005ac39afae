//! The files beside the workspace, and the backends there are to run them.

use damper::backend::{Backend, Choice, open};
use std::path::PathBuf;

/// A file below `onnx-models`.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onnx-models").join(file)
}

/// The models that are shipped without weights: `NAME.onnx`, and `vectors/NAME.npz` for the weights that `tests/models.rs`
/// draws.
#[allow(dead_code, reason = "not every test reads them")]
pub const SKELETONS: [&str; 7] =
    ["cifar-cnn", "cifar-cnn5", "resnet18-groupnorm", "wrn-16-4-groupnorm", "vit-tiny", "bert-tiny", "gpt-small"];

/// tract, and onnxruntime where it is found.
pub fn backends() -> Vec<Box<dyn Backend>> {
    let mut found = vec![open(Choice::Tract).expect("tract is compiled in")];
    match open(Choice::Ort) {
        Ok(ort) => found.push(ort),
        Err(error) => println!("skipped: {}", error.0.split(" (").next().unwrap_or_default()),
    }
    found
}
