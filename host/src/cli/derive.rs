//! `damper derive`: emits the gradient graph as an ONNX model.

use super::Failure;
use super::answer;
use super::model::ModelArgs;
use crate::autodiff::derive;
use crate::files::{Access, write};
use crate::graph::Graph;
use crate::onnx;
use clap::Args;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The model written takes the data inputs, dp.labels, and every trained
initializer under its own name; it gives dp.loss [N], the model's outputs, and
dp.grad.NAME [N, *shape] for each trained initializer.

Example:
  damper derive onnx-models/digits-cnn.onnx -o digits-cnn.grad.onnx";

/// Writes the model that computes every sample's gradient.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DeriveArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The file to write
    #[arg(short, long = "out", value_name = "OUT.onnx")]
    out: PathBuf,
    /// What is read out of the reverse sweep
    #[arg(long, value_name = "NAME", default_value = "per-sample", value_parser = readout)]
    readout: String,
    #[command(flatten)]
    options: ModelArgs,
}

fn readout(name: &str) -> Result<String, String> {
    match name {
        "per-sample" => Ok(name.into()),
        "norms" | "clipped-sum" => Err("not in this version, which has: per-sample".into()),
        _ => Err("unknown; this version has: per-sample".into()),
    }
}

pub(super) fn run(args: &DeriveArgs) -> Result<(), Failure> {
    if args.out.exists() && !args.out.is_file() {
        return Err(Failure::in_file(&args.out, "is there and no plain file; name another -o"));
    }
    let model = args.options.load(&args.model)?;
    let in_model = |error: &dyn std::fmt::Display| Failure::in_file(&args.model, error);
    let graph = Graph::from_model(&model, &args.options.graph_options()).map_err(|error| in_model(&error))?;
    let grad = derive(&graph, &args.options.derive_options()).map_err(|error| in_model(&error))?;
    write(&args.out, &onnx::encode(&grad.model), Access::Public)?;
    answer(&format!(
        "{}: {} nodes, gradients of {} parameters in {} tensors",
        args.out.display(),
        grad.model.graph.as_ref().map_or(0, |graph| graph.node.len()),
        graph.trained_len(),
        grad.parameters.len()
    ))
}
