//! The files beside the workspace, and the backends there are to run them.

use damper::backend::{Backend, Choice, open};
use std::path::PathBuf;

/// A file below `onnx-models`.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onnx-models").join(file)
}

/// tract, and onnxruntime where it is found.
pub fn backends() -> Vec<Box<dyn Backend>> {
    let mut found = vec![open(Choice::Tract).expect("tract is compiled in")];
    match open(Choice::Ort) {
        Ok(ort) => found.push(ort),
        Err(error) => println!("skipped: {}", error.0.split(" (").next().unwrap_or_default()),
    }
    found
}
