//! `damper federation apply`: computes the parameters of the next round from a round's sum.

use super::common::{check_model, model_of_plan, read_params, read_plan};
use crate::cli::args::model::ModelArgs;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_core::update::Update;
use damper_federated::ServerModel;
use damper_train::files::{Access, write};
use damper_train::write_model;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// Updates the model's parameters by a round's sum. That costs no privacy, because the sum is released.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(super) struct ApplyArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model of the plan
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The trained parameters of the round: float32 words, little-endian [default: the model's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// The sum of its updates, from damper aggregate --federation [default: none, the parameters are written as they
    /// are]
    #[arg(long, value_name = "FILE")]
    sum: Option<PathBuf>,
    /// The model with the parameters after this round
    #[arg(short, long, value_name = "OUT.onnx", required_unless_present = "out_params")]
    out: Option<PathBuf>,
    /// The trained parameters of the next round, which devices are sent
    #[arg(long, value_name = "FILE")]
    out_params: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ModelArgs,
}

#[derive(Serialize)]
struct Applied {
    parameters: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_params: Option<String>,
}

pub(super) fn run(args: &ApplyArgs) -> Result<(), Failure> {
    let ApplyArgs { model, sum, .. } = args;
    let plan = read_plan(&args.plan)?;
    let options = model_of_plan(&plan, &args.options)?;
    check_model(&plan, model)?;
    let read = ServerModel::read(model, options.of_file(), &options.graph_options(), &options.derive_options());
    let mut read = read.map_err(|error| Failure::in_model(model, error))?;
    if let Some(file) = &args.params {
        read.set_params(&plan, &read_params(file)?).map_err(|error| Failure::of_file(file, error))?;
    }
    if let Some(sum) = sum {
        let bytes = fs::read(sum).map_err(|error| Failure::of_file(sum, error))?;
        // A later round's sum updates that round's parameters.
        let round = Update::parse(&bytes).map_or(0, |sum| sum.header().round);
        if round > 0 && args.params.is_none() {
            return Err(Failure::usage(format!(
                "`params`: the sum is of round {round}; give the parameters with which that round began"
            )));
        }
        read.apply(&plan, &bytes).map_err(|error| Failure::of_file(sum, error))?;
    }
    if let Some(out) = &args.out {
        write_model(out, &read.to_model(&plan)?, Access::Public)?;
    }
    if let Some(out) = &args.out_params {
        let words: Vec<u8> = read.params().iter().flat_map(|param| param.to_le_bytes()).collect();
        write(out, &words, Access::Public)?;
    }
    let shown = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let applied =
        Applied { parameters: read.params().len(), out: shown(&args.out), out_params: shown(&args.out_params) };
    if args.json {
        return answer_json(&applied);
    }
    let wrote: Vec<String> = [applied.out, applied.out_params].into_iter().flatten().collect();
    answer(&format!("wrote {}", wrote.join(" and ")))
}
