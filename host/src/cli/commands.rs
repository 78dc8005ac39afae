//! Subcommands and their arguments.

use crate::cli::args::train::TrainArgs;
use crate::cli::command::aggregate;
use crate::cli::command::audit;
use crate::cli::command::compare::CompareArgs;
use crate::cli::command::config;
use crate::cli::command::evaluate;
use crate::cli::command::federation;
use crate::cli::command::models::compile;
use crate::cli::command::models::derive;
use crate::cli::command::models::export;
use crate::cli::command::models::fix;
use crate::cli::command::models::gradients;
use crate::cli::command::models::init;
use crate::cli::command::models::inspect;
use crate::cli::command::planning::budget;
use crate::cli::command::planning::calibrate;
use crate::cli::command::planning::epsilon;
use crate::cli::command::planning::factorize;
use crate::cli::command::planning::filter;
use crate::cli::command::replay;
use crate::cli::command::report;
use crate::cli::command::shell;
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
Examples:
  damper inspect onnx-models/digits-cnn.onnx
  damper train onnx-models/digits-cnn.onnx --data idx:onnx-models/digits \\
    --epsilon 3 --delta 1e-5 --batch-size 128 --epochs 20 --lr 2 --out run
  damper report run
  damper compare compare.toml
  damper epsilon --noise-multiplier 1.1 --sampling-rate 0.004 --steps 1000 \\
    --delta 1e-5

Exit codes: 0 success; 1 an error, and one line on standard error says what
to do; 2 a wrong command line or value of a flag; 3 a defect in damper itself; 130 and 143 a run
that Ctrl-C or SIGTERM stopped.";

/// Trains ONNX networks with differential privacy.
///
/// Give a network exported as .onnx, a data set and a privacy budget, and get a trained .onnx and a privacy report.
#[derive(Parser, Debug)]
#[command(name = "damper", version, after_help = AFTER_HELP, propagate_version = true)]
pub(in crate::cli) struct Cli {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Command {
    Train(Box<TrainArgs>),
    Compare(CompareArgs),
    Evaluate(Box<evaluate::EvaluateArgs>),
    Derive(derive::DeriveArgs),
    Compile(Box<compile::CompileArgs>),
    Config(config::ConfigArgs),
    Export(Box<export::ExportArgs>),
    Gradients(Box<gradients::GradientsArgs>),
    Init(init::InitArgs),
    Fix(fix::FixArgs),
    Inspect(inspect::InspectArgs),
    Epsilon(epsilon::EpsilonArgs),
    Calibrate(calibrate::CalibrateArgs),
    Factorize(factorize::FactorizeArgs),
    Budget(budget::BudgetArgs),
    Filter(filter::FilterArgs),
    Federation(federation::FederationArgs),
    Aggregate(aggregate::AggregateArgs),
    Replay(replay::ReplayArgs),
    Report(report::ReportArgs),
    Audit(audit::AuditArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

impl Command {
    /// Returns the settings of a run, if the subcommand takes them.
    pub(in crate::cli) fn train_args(&mut self) -> Option<&mut TrainArgs> {
        match self {
            Self::Train(args) => Some(args),
            Self::Audit(args) => Some(args.train_args()),
            _ => None,
        }
    }

    /// Returns true if a run file asks for an answer in JSON.
    pub(in crate::cli) fn answers_in_json(&self) -> bool {
        matches!(self, Self::Train(args) if args.json)
    }
}
