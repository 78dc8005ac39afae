//! Converts an ONNX model to the ONNX model of its per-sample gradients, for the loss `softmax-cross-entropy`:
//!
//! ```text
//! cargo run --release -p damper-grad --example per_sample -- onnx-models/digits-mlp.onnx digits-mlp-grad.onnx
//! ```

use damper_grad::{DeriveOptions, Loss, derive};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::{encode, load};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = &paths[..] else { return Err("usage: per_sample MODEL.onnx GRADIENTS.onnx".into()) };
    let graph = Graph::from_model(&load(Path::new(input))?, &GraphOptions::default())?;
    let grad = derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy))?;
    std::fs::write(output, encode(&grad.standard_model()))?;
    for spec in grad.feeds() {
        println!("input  {} {:?}", spec.name, spec.shape);
    }
    for spec in &grad.outputs {
        println!("output {} {:?}", spec.name, spec.shape);
    }
    Ok(())
}
