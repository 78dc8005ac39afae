//! The command line: one file a subcommand, each a thin parse → plan → run.
//!
//! Standard output holds the answer and nothing else; progress, warnings and errors go to standard error. An error is one
//! line that names the file, node, flag or row at fault and what to do. Exit codes: 0, 1 for an error, 2 for a wrong
//! command line, 3 for a defect in damper itself.

mod aggregate;
mod audit;
mod budget;
mod calibrate;
mod charge;
mod compare;
mod data;
mod derive;
mod epsilon;
mod filter;
mod flags;
mod init;
mod inspect;
mod method;
mod model;
mod optimizer;
mod progress;
mod replay;
mod report;
mod run_file;
mod train;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use damper_train::TrainError;
use flags::with_flags;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;

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
to do; 2 a wrong command line; 3 a defect in damper itself.";

/// Trains ONNX networks with differential privacy.
///
/// Give a network exported as .onnx, a data set and a privacy budget; get back a trained .onnx and a privacy report.
#[derive(Parser, Debug)]
#[command(name = "damper", version, after_help = AFTER_HELP, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Train(Box<train::TrainArgs>),
    Compare(compare::CompareArgs),
    Derive(derive::DeriveArgs),
    Init(init::InitArgs),
    Inspect(inspect::InspectArgs),
    Epsilon(epsilon::EpsilonArgs),
    Calibrate(calibrate::CalibrateArgs),
    Budget(budget::BudgetArgs),
    Filter(filter::FilterArgs),
    Aggregate(aggregate::AggregateArgs),
    Replay(replay::ReplayArgs),
    Report(report::ReportArgs),
    Audit(audit::AuditArgs),
}

/// Why a subcommand failed: one line that names the cause and the remedy.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// What is wrong with `file`, in the command's words.
    fn in_file(file: &Path, problem: impl Display) -> Self {
        Self(format!("{}: {problem}", file.display()))
    }

    /// A library's error about `file`.
    fn of_file(file: &Path, error: impl std::error::Error) -> Self {
        Self::in_file(file, with_flags(&error.to_string()))
    }

    /// What is wrong, with the file where the model is at fault.
    fn in_model(model: &Path, error: TrainError) -> Self {
        match error {
            TrainError::Graph(error) => Self::of_file(model, error),
            TrainError::DeriveError(error) => Self::of_file(model, error),
            error => Self::from(error),
        }
    }
}

/// A library's error, with flags in the place of settings.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(with_flags(&error.to_string()))
    }
}

/// Runs the command line `args`, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        if !damper_data::catches_panics() {
            complain(&format!("a defect in damper, please report it: {info}"));
        }
    }));
    #[cfg(feature = "mutants")]
    if let Err(code) = choose_mutant() {
        return code;
    }
    let args: Vec<OsString> = args.into_iter().collect();
    match panic::catch_unwind(|| parse_and_run(args)) {
        Ok(code) => code,
        Err(_) => ExitCode::from(3),
    }
}

/// Breaks the mechanism as the environment says, for the tests of the audits.
#[cfg(feature = "mutants")]
fn choose_mutant() -> Result<(), ExitCode> {
    use damper_core::mutant::{Mutant, choose};
    let Some(name) = std::env::var_os("DAMPER_MUTANT") else { return Ok(()) };
    let Some((mutant, _, what)) = Mutant::ALL.iter().find(|(_, known, _)| name == *known) else {
        complain(&format!("DAMPER_MUTANT {}: no such mutant; leave it out", name.display()));
        return Err(ExitCode::from(2));
    };
    complain(&format!("broken on purpose: {what}"));
    choose(*mutant);
    Ok(())
}

fn parse_and_run(args: Vec<OsString>) -> ExitCode {
    flags::register(&Cli::command());
    let result = match run_file::expand(Cli::command(), args) {
        Ok(args) => match Cli::command().try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m)) {
            Ok(cli) => run(cli.command),
            Err(error) => {
                // Help and version are no errors; clap gives them the code 0 and standard output.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        },
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message)) => {
            complain(&message);
            ExitCode::from(1)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    damper_core::self_test().map_err(TrainError::from)?;
    match command {
        Command::Train(args) => train::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Epsilon(args) => epsilon::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Budget(args) => budget::run(&args),
        Command::Filter(args) => filter::run(&args),
        Command::Aggregate(args) => aggregate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Audit(args) => audit::run(&args),
    }
}

/// Two values with a comma between them, as a flag takes them.
fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    text.split_once(',')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .ok_or_else(|| "give two, with a comma between them".into())
}

/// A number that is kept in 32 bits, so that what is beyond them is not taken for infinite.
fn number32(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "give a number".to_owned())?;
    if number.is_infinite() && text.parse().is_ok_and(f64::is_finite) {
        return Err(format!("beyond the largest 32-bit number, {:e}", f32::MAX));
    }
    Ok(number)
}

/// One line on standard error.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "error: {}", one_line(message));
}

/// A message as one line. Files' names for things stand in messages: what would move a terminal's cursor is left out.
fn one_line(message: &str) -> String {
    let shown: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The answer, on standard output. A reader that has gone away (`| head`) is no error.
fn answer(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("standard output: {error}; send it elsewhere")))
        }
        _ => Ok(()),
    }
}

/// `value` as one JSON object on standard output.
fn answer_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    answer(&serde_json::to_string_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_a_file_calls_its_parts() {
        assert_eq!(one_line("m.onnx: node 'a\nb\x1b[2J\u{9b}c' \t is  refused"), "m.onnx: node 'a b [2J c' is refused");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_word_of_help() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
