//! `damper export`: writes parameters from a device into the model.

use crate::cli::Failure;
use crate::cli::answer;
use crate::cli::args::model::ModelArgs;
use clap::Args;
use damper_edit::init::Loaded;
use damper_grad::derive;
use damper_onnx as onnx;
use damper_onnx::graph::Graph;
use damper_train::files::Access;
use damper_train::write_model;
use std::fs;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
FILE has the parameters of a device as `damper compile` orders them (PARAMETERS in
its crate): float32, little-endian, one after the other. Give the flags that the
network was compiled with.

Example:
  damper export onnx-models/digits-cnn.onnx --params device.f32 --out trained.onnx";

/// Writes the parameters that a compiled network trained on a device into the model.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct ExportArgs {
    /// The model that was compiled
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The device's parameters
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT.onnx")]
    out: PathBuf,
    #[command(flatten)]
    options: ModelArgs,
}

pub(in crate::cli) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let ExportArgs { model, params, out, options } = args;
    if out.exists() && !out.is_file() {
        return Err(Failure::in_file(out, "is there and no plain file; name another `out`"));
    }
    let (Loaded { model: proto, .. }, graph_options) = options.load(model)?;
    let graph = Graph::from_model(&proto, &graph_options).map_err(|error| Failure::of_file(model, error))?;
    let grad = derive(&graph, &options.derive_options()).map_err(|error| Failure::of_file(model, error))?;
    let len = fs::metadata(params).map_err(|error| Failure::in_file(params, error))?.len();
    let needed = 4 * grad.trained_len() as u64;
    if len != needed {
        let problem = format!(
            "has {len} bytes where {} trained parameters take {needed}; give the flags that the network was compiled with",
            grad.trained_len()
        );
        return Err(Failure::in_file(params, problem));
    }
    let bytes = fs::read(params).map_err(|error| Failure::in_file(params, error))?;
    let values: Vec<f32> =
        bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let problem =
            format!("parameter {at} is {}; the file is no device's parameters, or its run diverged", values[at]);
        return Err(Failure::in_file(params, problem));
    }
    let mut rest = values.as_slice();
    let mut named = vec![];
    for spec in &grad.parameters {
        let (values, after) = rest.split_at(spec.elements(1).min(rest.len()));
        named.push((spec.name.as_str(), values));
        rest = after;
    }
    let trained = onnx::write_trained(&proto, &named).map_err(|error| Failure::of_file(model, error))?;
    write_model(out, &trained, Access::Public)?;
    answer(&format!("{}: {} parameters in {} tensors", out.display(), values.len(), named.len()))
}
