//! Warnings that depend on rows of the data. ε does not cover them, so one rule says who hears them (docs/threat-model.md has the table):
//! a program that called the command, by a channel of its own, or else whoever sits at an interactive terminal. Nothing that is kept has
//! them: no event, log, report, answer in JSON, exception, or standard error that is a file or a pipe.

use crate::cli::args::flags::with_flags;
use crate::cli::session::caller;
use std::env;
use std::io::{self, IsTerminal, Write};

/// What every such warning says of itself.
const MARK: &str = "about rows, which epsilon does not cover";

/// Returns true if standard error is an interactive terminal: systems that run jobs give some a terminal, and keep what it shows.
fn is_interactive() -> bool {
    let is_job = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0");
    io::stderr().is_terminal() && !is_job
}

/// Who hears of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct RowWarnings {
    on_terminal: bool,
}

impl RowWarnings {
    /// Of a command with the flags --quiet and --json: with either, no terminal hears of rows.
    pub(in crate::cli) fn new(quiet: bool, json: bool) -> Self {
        Self { on_terminal: !quiet && !json && is_interactive() }
    }

    /// Tells one warning. `line` writes a line on the terminal.
    pub(in crate::cli) fn tell(self, text: &str, line: impl FnOnce(&str)) {
        let text = with_flags(text);
        if caller::is_active() {
            caller::tell_of_rows(&format!("{text} ({MARK})"));
        } else if self.on_terminal {
            line(&format!("warning {MARK}: {text}"));
        }
    }

    /// [`tell`](Self::tell), on standard error.
    pub(in crate::cli) fn warn(self, text: &str) {
        self.tell(text, |line| {
            let _ = writeln!(io::stderr(), "{line}");
        });
    }
}
