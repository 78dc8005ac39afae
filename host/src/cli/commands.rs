//! The subcommands and their arguments.

use super::compare::CompareArgs;
use super::train_args::TrainArgs;
use super::{
    aggregate, audit, budget, calibrate, compile, config, derive, epsilon, export, factorize, federation, filter, fix,
    gradients, init, inspect, replay, report, shell,
};
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
/// Give a network exported as .onnx, a data set and a privacy budget; get back a trained .onnx and a privacy report.
#[derive(Parser, Debug)]
#[command(name = "damper", version, after_help = AFTER_HELP, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    Train(Box<TrainArgs>),
    Compare(CompareArgs),
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
    /// The settings of a run, if the subcommand takes them.
    pub(super) fn train_args(&mut self) -> Option<&mut TrainArgs> {
        match self {
            Self::Train(args) => Some(args),
            Self::Audit(args) => Some(args.train_args()),
            _ => None,
        }
    }

    /// Returns true if a run file asks for an answer in JSON.
    pub(super) fn answers_in_json(&self) -> bool {
        matches!(self, Self::Train(args) if args.json)
    }
}
