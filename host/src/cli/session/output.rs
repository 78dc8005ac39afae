//! Output of the command: its answer on standard output, warnings and errors on standard error.

use crate::cli::args::flags::number::instead;
use crate::cli::args::flags::with_flags;
use crate::cli::session::caller;
use damper_accounting::AccountingError;
use damper_data::DataError;
use damper_design::FilterError;
use damper_edit::init::InitError;
use damper_federated::RoundError;
use damper_federation::FederationError;
use damper_grad::DeriveError;
use damper_onnx::SettingError;
use damper_onnx::graph::GraphError;
use damper_train::{TrainError, UsedDefault};
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Error of a subcommand.
#[derive(Debug)]
pub(in crate::cli) struct Failure {
    /// One line with the problem and the fix.
    pub(in crate::cli) message: String,
    pub(in crate::cli) kind: FailureKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum FailureKind {
    /// A flag is wrong: the command line must change.
    Usage,
    /// The parameters left their range: the run would do so again.
    Diverged,
    /// The run was stopped before its first step. The process ends with this code.
    Stopped(u8),
    Other,
}

impl Failure {
    /// Creates an error. Its message has settings in backticks.
    pub(in crate::cli) fn new(message: impl AsRef<str>) -> Self {
        Self { message: with_flags(message.as_ref()), kind: FailureKind::Other }
    }

    /// Creates an error of a setting: its flag must change.
    pub(in crate::cli) fn usage(message: impl AsRef<str>) -> Self {
        Self { kind: FailureKind::Usage, ..Self::new(message) }
    }

    /// Creates an error from that of a library about a setting.
    pub(in crate::cli) fn usage_of(error: impl Error) -> Self {
        Self::usage(error.to_string())
    }

    /// Creates an error of settings in a file: keys stay in backticks.
    pub(in crate::cli) fn keys(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Other }
    }

    /// Creates an error of settings in the file with this name.
    pub(in crate::cli) fn in_run_file(file: &Path, problem: impl Display) -> Self {
        Self::keys(format!("{}: {problem}", file.display()))
    }

    /// Creates an error of `file`, with the command's own text.
    pub(in crate::cli) fn in_file(file: &Path, problem: impl Display) -> Self {
        Self::new(format!("{}: {problem}", file.display()))
    }

    pub(in crate::cli) fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Usage => 2,
            FailureKind::Stopped(code) => code,
            FailureKind::Diverged | FailureKind::Other => 1,
        }
    }

    /// Prints the error, and returns the exit code of the process.
    pub(in crate::cli) fn say(&self, in_json: bool) -> u8 {
        complain(&self.message);
        if in_json {
            fail_in_json(self);
        }
        self.exit_code()
    }

    /// Creates an error from a library's error about `file`.
    pub(in crate::cli) fn of_file(file: &Path, error: impl Error + 'static) -> Self {
        Self { kind: kind_of(&error), ..Self::in_file(file, error) }
    }

    /// Creates an error of training. It names the file if the model is at fault.
    pub(in crate::cli) fn in_model(model: &Path, error: TrainError) -> Self {
        match error {
            TrainError::Graph(error) => Self::of_file(model, error),
            TrainError::DeriveError(error) => Self::of_file(model, error),
            error @ TrainError::Diverged { .. } => Self { kind: FailureKind::Diverged, ..Self::from(error) },
            error => Self::from(error),
        }
    }
}

/// Converts a library's error: settings become flags.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { kind: kind_of(&error), ..Self::new(error.to_string()) }
    }
}

/// Returns the kind of an error: usage if a setting is at fault.
fn kind_of(error: &(dyn Error + 'static)) -> FailureKind {
    if is_of_setting(error) { FailureKind::Usage } else { FailureKind::Other }
}

/// Returns true if a setting is at fault, in any library's error.
fn is_of_setting(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(RoundError::Train(error)) => return is_of_setting(error),
        Some(RoundError::Federation(error)) => return is_of_setting(error),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<TrainError>() {
        return match error {
            TrainError::Setting(_) => true,
            TrainError::Accounting(error) => error.is_of_setting(),
            TrainError::Data(error) => is_of_setting(error),
            TrainError::DeriveError(error) => is_of_setting(error),
            TrainError::Graph(error) => is_of_setting(error),
            TrainError::Init(error) => is_of_setting(error),
            _ => false,
        };
    }
    error.is::<SettingError>()
        || error.downcast_ref().is_some_and(FilterError::is_of_setting)
        || error.downcast_ref().is_some_and(AccountingError::is_of_setting)
        || error.downcast_ref().is_some_and(DataError::is_of_setting)
        || matches!(error.downcast_ref(), Some(GraphError::Setting(_) | GraphError::Frozen))
        || error.downcast_ref().is_some_and(DeriveError::is_of_setting)
        || error.downcast_ref().is_some_and(InitError::is_of_setting)
        || error.downcast_ref().is_some_and(FederationError::is_of_setting)
}

pub(in crate::cli) fn fail_in_json(failure: &Failure) {
    complain_in_json(&one_line(&failure.message));
}

/// Prints an error of a command that answers in JSON to standard output, unless the answer is already there.
pub(in crate::cli) fn complain_in_json(message: &str) {
    if ANSWERED.load(Ordering::Relaxed) {
        return;
    }
    let _ = answer_json(&serde_json::json!({ "error": message }));
}

/// Prints a warning with only public facts: to the calling program, or else as one line on standard error. For warnings
/// about rows use `RowWarnings`.
pub(in crate::cli) fn warn(text: &str) {
    if !caller::tell("warning", serde_json::json!({ "text": text })) {
        let _ = writeln!(io::stderr(), "warning: {text}");
    }
}

/// Prints a line about the data's files. It is public, as names are.
pub(in crate::cli) fn say_of_data(note: &str) {
    let note = with_flags(note);
    if !caller::tell("note", serde_json::json!({ "text": note })) {
        let _ = writeln!(io::stderr(), "data: {}", one_line(&note));
    }
}

/// Prints a line of public facts.
pub(in crate::cli) fn say(line: &str) {
    if !caller::tell("note", serde_json::json!({ "text": line })) {
        let _ = writeln!(io::stderr(), "{}", one_line(line));
    }
}

/// Prints a default that the user left open, with its reason.
pub(in crate::cli) fn say_default(used: &UsedDefault) {
    let UsedDefault { setting, value, reason } = used;
    let note = with_flags(&format!("`{setting}` {value}: {reason}"));
    if !caller::tell("default", serde_json::json!({ "setting": setting, "value": value, "reason": reason })) {
        let _ = writeln!(io::stderr(), "default: {}", one_line(&note));
    }
}

/// Returns the parser's message. If Rust's parsers rejected a number, it has the fix.
pub(in crate::cli) fn plain_text(error: &clap::Error) -> String {
    let text = error.to_string();
    match error.source().and_then(|source| Some((source.to_string(), instead(source)?))) {
        Some((said, instead)) => text.replace(&said, instead),
        None => text,
    }
}

/// Returns the first paragraph of clap's message and its tips, in one line.
pub(in crate::cli) fn plain_with_tips(error: &clap::Error) -> String {
    let text = plain_text(error);
    let tips = text.split("\n\n").filter(|paragraph| paragraph.trim_start().starts_with("tip: "));
    let tips: String = tips.map(|paragraph| format!("; {}", one_line(paragraph))).collect();
    plain(error) + &tips
}

/// Returns the first paragraph of clap's message, in one line.
pub(in crate::cli) fn plain(error: &clap::Error) -> String {
    let text = plain_text(error);
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Prints one line on standard error.
pub(in crate::cli) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "error: {}", one_line(message));
}

/// Converts a message to one line. Messages may contain names from files, so characters that would move a terminal's
/// cursor are removed.
pub(in crate::cli) fn one_line(message: &str) -> String {
    let shown: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // Remove the number of an operating system error, which also has a text.
    let Some((before, after)) = shown.split_once(" (os error ") else { return shown };
    match after.split_once(')') {
        Some((number, after)) if number.bytes().all(|b| b.is_ascii_digit()) => format!("{before}{after}"),
        _ => shown,
    }
}

/// True after the command has answered.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Prints the answer on standard output. A closed reader (`| head`) is not an error.
pub(in crate::cli) fn answer(text: &str) -> Result<(), Failure> {
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

/// Prints `value` as one JSON object on standard output.
pub(in crate::cli) fn answer_json(value: &impl serde::Serialize) -> Result<(), Failure> {
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
}
