//! `damper federation apply`: the model of the next round from a round's sum.

use super::super::model::ModelArgs;
use super::super::{Failure, answer, answer_json};
use super::common::read_plan;
use clap::Args;
use damper_onnx as onnx;
use damper_train::federated::ServerModel;
use damper_train::files::{Access, write};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// Moves the model's parameters by a round's sum. That costs no privacy: the sum is released.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(super) struct ApplyArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model of the round
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The sum of its updates, from damper aggregate --federation
    #[arg(long, value_name = "FILE")]
    sum: PathBuf,
    /// The model of the next round
    #[arg(short, long, value_name = "OUT.onnx")]
    out: PathBuf,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ModelArgs,
}

#[derive(Serialize)]
struct Applied {
    parameters: usize,
    out: String,
}

pub(super) fn run(args: &ApplyArgs) -> Result<(), Failure> {
    let ApplyArgs { model, sum, out, options, .. } = args;
    let plan = read_plan(&args.plan)?;
    let read = ServerModel::read(model, options.init_seed, &options.graph_options(), &options.derive_options());
    let mut read = read.map_err(|error| Failure::in_model(model, error))?;
    let bytes = fs::read(sum).map_err(|error| Failure::of_file(sum, error))?;
    read.apply(&plan, &bytes).map_err(|error| Failure::of_file(sum, error))?;
    write(out, &onnx::encode(&read.to_model(&plan)?), Access::Public)?;
    let applied = Applied { parameters: read.params().len(), out: out.display().to_string() };
    if args.json { answer_json(&applied) } else { answer(&format!("wrote {}", applied.out)) }
}
