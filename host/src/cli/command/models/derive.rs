//! `damper derive`: emits the gradient graph as an ONNX model.

use crate::cli::Failure;
use crate::cli::answer;
use crate::cli::args::model::ModelArgs;
use clap::Args;
use damper_edit::init::Loaded;
use damper_grad::{DeriveOptions, Readout, derive};
use damper_onnx::graph::Graph;
use damper_train::files::Access;
use damper_train::write_model;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The model written takes the data inputs, dp.labels, and every trained
initializer under its own name; it gives dp.loss [N] and the model's outputs.
It reads out, with N the samples of a batch, of each trained initializer NAME:

  per-sample    dp.grad.NAME [N, *shape]
  norms         dp.norm [N], over all trained initializers together
  clipped-sum   dp.norm [N] and dp.sum.NAME [*shape], the sum of the gradients
                clipped to dp.clip (a float input), over the rows whose
                dp.weight (a float input [N]) is 1, not 0, and whose norm is
                finite; bounded in the runtime's floats, so not exact

With --points K above 1 every trained initializer is taken at K points, under
the names NAME@0 to NAME@K-1; each sample's gradients are mixed with the
weights dp.mix (a float input [K]) before anything is read out. dp.loss and the
model's outputs are those of point 0.

Example:
  damper derive onnx-models/digits-cnn.onnx -o digits-cnn.grad.onnx";

/// Writes the model that computes every sample's gradient.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct DeriveArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The file to write
    #[arg(short, long = "out", value_name = "OUT.onnx")]
    out: PathBuf,
    /// Outputs of the backward pass: per-sample, norms or clipped-sum
    #[arg(long, value_name = "NAME", default_value = "per-sample")]
    readout: Readout,
    /// Evaluation points of the gradients, which are combined for each sample
    #[arg(long, value_name = "K", default_value = "1")]
    points: NonZeroUsize,
    #[command(flatten)]
    options: ModelArgs,
}

pub(in crate::cli) fn run(args: &DeriveArgs) -> Result<(), Failure> {
    if args.out.exists() && !args.out.is_file() {
        return Err(Failure::in_file(&args.out, "is there and no plain file; name another -o"));
    }
    let (Loaded { model, .. }, options) = args.options.load(&args.model)?;
    let graph = Graph::from_model(&model, &options).map_err(|error| Failure::of_file(&args.model, error))?;
    let options = DeriveOptions { readout: args.readout, points: args.points, ..args.options.derive_options() };
    let grad = derive(&graph, &options).map_err(|error| Failure::of_file(&args.model, error))?;
    let standard = grad.device_model();
    write_model(&args.out, &standard, Access::Public)?;
    let note = match grad.unreached.join(", ") {
        names if names.is_empty() => names,
        names => format!("\nnot trained, for no gradient reaches it from the loss: {names}"),
    };
    answer(&format!(
        "{}: {} nodes, gradients of {} parameters in {} tensors{note}",
        args.out.display(),
        standard.graph.as_ref().map_or(0, |graph| graph.node.len()),
        grad.trained_len(),
        grad.parameters.len()
    ))
}
