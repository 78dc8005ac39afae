//! Warnings that depend on rows of the data. ε does not cover them, so one rule determines their receiver
//! (docs/threat-model.md has the table).
//!
//! The receiver is a program that embeds the command, by a separate channel, or else an interactive terminal. No stored
//! output contains them: no event, log, report, JSON answer, exception, or standard error that is a file or a pipe.

use crate::cli::args::flags::with_flags;
use crate::cli::session::caller;
use std::env;
use std::io::{self, IsTerminal, Write};

/// Mark on every such warning.
const MARK: &str = "about rows, which epsilon does not cover";

/// Returns true if standard error is an interactive terminal. Job systems provide a terminal for some jobs, and store
/// its output.
fn is_interactive() -> bool {
    let is_job = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0");
    io::stderr().is_terminal() && !is_job
}

/// Receiver of warnings about rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct RowWarnings {
    on_terminal: bool,
}

impl RowWarnings {
    /// Creates the receiver for a command with the flags --quiet and --json. With either, no terminal receives warnings
    /// about rows.
    pub(in crate::cli) fn new(quiet: bool, json: bool) -> Self {
        Self { on_terminal: !quiet && !json && is_interactive() }
    }

    /// Sends one warning. `line` writes a line on the terminal.
    pub(in crate::cli) fn tell(self, text: &str, line: impl FnOnce(&str)) {
        let text = with_flags(text);
        if caller::is_active() {
            caller::tell_of_rows(&format!("{text} ({MARK})"));
        } else if self.on_terminal {
            line(&format!("warning {MARK}: {text}"));
        }
    }

    /// As [`tell`](Self::tell), on standard error.
    pub(in crate::cli) fn warn(self, text: &str) {
        self.tell(text, |line| {
            let _ = writeln!(io::stderr(), "{line}");
        });
    }
}
