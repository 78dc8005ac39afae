//! The command line: one file a subcommand, each a thin parse → plan → run.
//!
//! Standard output holds the answer and nothing else; progress, warnings and errors go to standard error. An error is one
//! line that names the file, node, flag or row at fault and what to do. With --json it is also one object on standard output:
//! {"error": "..."}. Exit codes: 0, 1 for an error, 2 for a wrong
//! command line or a wrong value of a flag, 3 for a defect in damper itself.

mod aggregate;
mod audit;
mod augment;
mod budget;
mod calibrate;
mod caller;
mod charge;
mod command_line;
mod compare;
mod compile;
mod data;
mod derive;
pub mod embed;
mod epsilon;
mod events;
mod export;
mod factorize;
mod federation;
mod filter;
mod finish;
mod fix;
mod flags;
mod gradients;
mod in_memory;
mod init;
mod inspect;
mod machine;
mod method;
mod model;
mod near_miss;
mod optimizer;
mod progress;
mod python_words;
mod ranks;
mod replay;
mod report;
mod resume;
mod rows;
mod run_file;
mod settings;
mod shell;
mod signals;
mod train;
mod watch;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use damper_train::TrainError;
use flags::with_flags;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

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
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Train(Box<train::TrainArgs>),
    Compare(compare::CompareArgs),
    Derive(derive::DeriveArgs),
    Compile(Box<compile::CompileArgs>),
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

/// Why a subcommand failed.
#[derive(Debug)]
struct Failure {
    /// One line that names the cause and the remedy.
    message: String,
    kind: FailureKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailureKind {
    /// A flag is at fault: the command line must change.
    Usage,
    /// The parameters left their range: the run would do so again.
    Diverged,
    /// The run was stopped before its first step. The process ends with this code.
    Stopped(u8),
    Other,
}

impl Failure {
    /// A message that begins with a flag, or has one after the name of a file, is about that flag.
    fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let in_file = message.split_once(": ").map_or("", |(_, problem)| problem);
        let is_usage = [&*message, in_file].iter().any(|text| text.starts_with("--"));
        Self { message, kind: if is_usage { FailureKind::Usage } else { FailureKind::Other } }
    }

    /// A failure of `file`, in the command's words.
    fn in_file(file: &Path, problem: impl Display) -> Self {
        Self::new(format!("{}: {problem}", file.display()))
    }

    fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Usage => 2,
            FailureKind::Stopped(code) => code,
            FailureKind::Diverged | FailureKind::Other => 1,
        }
    }

    /// Says what failed; the code with which the process ends.
    fn say(&self, in_json: bool) -> u8 {
        complain(&self.message);
        if in_json {
            fail_in_json(self);
        }
        self.exit_code()
    }

    /// A library's error about `file`.
    fn of_file(file: &Path, error: impl std::error::Error) -> Self {
        Self::in_file(file, with_flags(&error.to_string()))
    }

    /// A failure of training, with the file's name if the model is at fault.
    fn in_model(model: &Path, error: TrainError) -> Self {
        match error {
            TrainError::Graph(error) => Self::of_file(model, error),
            TrainError::DeriveError(error) => Self::of_file(model, error),
            error @ TrainError::Diverged { .. } => Self { kind: FailureKind::Diverged, ..Self::from(error) },
            error => Self::from(error),
        }
    }
}

/// A library's error, with flags in the place of settings.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(with_flags(&error.to_string()))
    }
}

/// Runs the command line `args`, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        if !damper_data::catches_panics() {
            complain(&format!("a defect in damper, please report it: {info}"));
        }
    }));
    let args: Vec<OsString> = args.into_iter().collect();
    match panic::catch_unwind(|| parse_and_run(args)) {
        Ok(code) => code,
        Err(_) => ExitCode::from(3),
    }
}

fn parse_and_run(args: Vec<OsString>) -> ExitCode {
    flags::register(&Cli::command());
    let given = args.iter().any(|arg| arg == "--json");
    let all = resume::expand(&Cli::command(), args.clone()).and_then(|all| {
        let args = command_line::registered(run_file::expand(Cli::command(), all.args)?);
        Ok(resume::Expanded { args, ..all }.rebased(&Cli::command()))
    });
    let (in_json, result) = match all {
        Ok(all) => {
            let in_json = given || all.iter().any(|arg| arg == "--json");
            match parse(all) {
                Ok(command) => (in_json, command.and_then(run)),
                Err(error) => return misused(error, &args, in_json),
            }
        }
        Err(failure) => (given, Err(failure)),
    };
    match result {
        Ok(code) => code,
        Err(failure) => ExitCode::from(failure.say(in_json)),
    }
}

/// The subcommand that `args` name. The outer error is of the command line.
fn parse(args: Vec<OsString>) -> Result<Result<Command, Failure>, clap::Error> {
    let matches = Cli::command().try_get_matches_from(args)?;
    let Cli { mut command } = Cli::from_arg_matches(&matches)?;
    if let (Command::Train(args), Some(given)) = (&mut command, matches.subcommand_matches("train")) {
        let cli = Cli::command();
        let train = cli.find_subcommand("train").expect("the subcommand was parsed");
        match resume::invocation(train, given) {
            Ok(invocation) => args.invocation = Some(invocation),
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(command))
}

/// A wrong command line. Help and version are no errors: clap gives them the code 0 and standard output.
fn misused(mut error: clap::Error, args: &[OsString], in_json: bool) -> ExitCode {
    near_miss::suggest(&mut error, &Cli::command(), args);
    let text = error.to_string();
    let said = plain_words(&text);
    if said == text {
        let _ = error.print();
    } else {
        let _ = write!(io::stderr(), "{said}");
    }
    if in_json && error.exit_code() != 0 {
        let tips = said.split("\n\n").filter(|paragraph| paragraph.trim_start().starts_with("tip: "));
        let tips = tips.map(|paragraph| format!("; {}", one_line(paragraph)));
        complain_in_json(&(run_file::plain(&error) + &tips.collect::<String>()));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// A message of the parser with what Rust's own parsers say in words.
fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("cannot parse float from empty string", "give a number"),
        ("cannot parse integer from empty string", "give a whole number"),
        ("invalid float literal", "give a number"),
        ("invalid digit found in string", "give a whole number"),
        ("number would be zero for non-zero type", "give a whole number above 0"),
        ("number too large to fit in target type", "give a smaller number"),
    ];
    WORDS.iter().fold(message.to_owned(), |text, (said, meant)| text.replace(said, meant))
}

fn fail_in_json(failure: &Failure) {
    complain_in_json(&one_line(&failure.message));
}

/// An error of a command that answers in JSON, on standard output, unless the answer stands there already.
fn complain_in_json(message: &str) {
    if ANSWERED.load(Ordering::Relaxed) {
        return;
    }
    let _ = answer_json(&serde_json::json!({ "error": message }));
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    damper_core::self_test().map_err(TrainError::from)?;
    match command {
        Command::Train(args) => return train::run(&args),
        Command::Gradients(args) => return gradients::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Epsilon(args) => epsilon::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Factorize(args) => factorize::run(&args),
        Command::Budget(args) => budget::run(&args),
        Command::Filter(args) => filter::run(&args),
        Command::Federation(args) => federation::run(&args),
        Command::Aggregate(args) => aggregate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
    }
    .map(|()| ExitCode::SUCCESS)
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

/// A warning of public facts alone: to the calling program, or else one line on standard error. One about rows is for [`rows`].
fn warn(text: &str) {
    if !caller::tell("warning", serde_json::json!({ "text": text })) {
        let _ = writeln!(io::stderr(), "warning: {text}");
    }
}

/// A line about the files of the data: public, as names are.
fn say_of_data(note: &str) {
    let note = flags::with_flags(note);
    if !caller::tell("note", serde_json::json!({ "text": note })) {
        let _ = writeln!(io::stderr(), "data: {}", one_line(&note));
    }
}

/// One line on standard error.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "error: {}", one_line(message));
}

/// A message as one line. Files' names for things stand in messages: what would move a terminal's cursor is left out.
fn one_line(message: &str) -> String {
    let shown: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // The system's number of an error that it also has words for.
    let Some((before, after)) = shown.split_once(" (os error ") else { return shown };
    match after.split_once(')') {
        Some((number, after)) if number.bytes().all(|b| b.is_ascii_digit()) => format!("{before}{after}"),
        _ => shown,
    }
}

/// True once the command has answered.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// The answer, on standard output. A reader that has gone away (`| head`) is no error.
fn answer(text: &str) -> Result<(), Failure> {
    if caller::keep_answer(text) {
        return Ok(());
    }
    ANSWERED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}; send it elsewhere")))
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

    // A message is one line, even if names in a file contain line breaks.
    #[test]
    fn message_is_one_line() {
        assert_eq!(one_line("m: No such file (os error 2); check it"), "m: No such file; check it");
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
