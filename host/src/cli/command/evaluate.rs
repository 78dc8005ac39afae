//! `damper evaluate`: figures of a run's model on other samples, which are read as the run has read its own.

use crate::cli::args::data::DataArgs;
use crate::cli::args::given::settings_of_run;
use crate::cli::args::machine::MachineArgs;
use crate::cli::args::train::TrainArgs;
use crate::cli::{Failure, answer, answer_json, say};
use clap::{Args, Command};
use damper_train::figures;
use std::path::PathBuf;

/// The model of a finished run.
const MODEL: &str = "model.onnx";

const AFTER_HELP: &str = "\
NOT PRIVATE: the figures are exact functions of these samples, which no epsilon
covers. Keep them as secret as the samples, unless these are public.

The run's config.toml gives the loss and how samples are read. Flags given here
override it. Data that have held-out samples of their own are evaluated on these,
other data on all rows.

Example:
  damper evaluate run csv:new.csv";

/// Evaluates a run's model on other samples: their loss and accuracy.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true, after_help = AFTER_HELP, mut_arg("data", |arg| arg.required(false)),
    mut_arg("test", |arg| arg.hide(true)), mut_arg("test_labels", |arg| arg.hide(true)),
    mut_arg("split_seed", |arg| arg.hide(true)), mut_arg("stratify", |arg| arg.hide(true)),
    mut_arg("train_size", |arg| arg.hide(true)), mut_arg("physical_batch", |arg| arg.hide(true)),
    mut_arg("workers", |arg| arg.hide(true))
)]
pub(in crate::cli) struct EvaluateArgs {
    /// A run's folder, made by damper train --out
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The samples with their labels, as --data takes them
    #[arg(value_name = "DATA", required_unless_present = "data", conflicts_with = "data")]
    samples: Option<String>,
    /// Prints the figures as one JSON object, with those of each class
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Evaluates the model of a run. `train` is the description of the subcommand `train`.
pub(in crate::cli) fn run(args: &EvaluateArgs, train: &Command) -> Result<(), Failure> {
    let EvaluateArgs { folder, samples, json, data, machine } = args;
    let mut own = TrainArgs::default();
    (own.data, own.machine) = (data.clone(), machine.clone());
    if let Some(setting) = own.data.of_split() {
        return Err(Failure::usage(format!("`{setting}`: divides the samples of a training; leave it out")));
    }
    let mut settings = settings_of_run(folder, &own, train)?;
    settings.data = settings.data.of_samples(samples.as_deref().unwrap_or(own.data.source()));
    settings.options = settings.options.of_trained();
    settings.data.find_kinds(None)?.iter().for_each(|line| say(line));
    let model = folder.join(MODEL);
    let source = settings.source(model.clone());
    let figures = figures(&source, settings.machine.backend()?).map_err(|error| Failure::in_model(&model, error))?;
    if *json {
        return answer_json(&figures);
    }
    let mut lines = vec![format!("model     {}", model.display())];
    lines.push(format!("samples   {} of {}", figures.samples, settings.data.source()));
    lines.extend(figures.accuracy.map(|accuracy| format!("accuracy  {:.2} %", 100.0 * accuracy)));
    lines.extend(figures.r_squared.map(|r_squared| format!("R²        {r_squared:.4}")));
    lines.push(format!("loss      {:.6}", figures.loss));
    lines.push("privacy   exact figures of these samples, which no epsilon covers".into());
    answer(&lines.join("\n"))
}
