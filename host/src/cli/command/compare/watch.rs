//! Progress of a comparison on standard error: a line for each run, and on a terminal a bar within it.

use crate::cli::args::flags::with_flags;
use crate::cli::session::progress::duration;
use crate::cli::session::row_warnings::RowWarnings;
use damper_report::compare::{ComparisonFigures, ComparisonPurpose, Position, Task};
use damper_train::{Progress, RunEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// Observer of a comparison.
pub(super) struct Watch {
    quiet: bool,
    /// Destination of warnings about rows.
    of_rows: RowWarnings,
    /// Progress bar on a terminal, if runs are sequential.
    bar: Option<ProgressBar>,
    heard: Mutex<Heard>,
}

/// Messages shown so far.
#[derive(Default)]
struct Heard {
    /// Last message about the backend.
    backend: String,
    /// Warnings shown so far.
    warned: Vec<String>,
}

/// Observer of one run.
pub(super) struct RunWatch<'a> {
    watch: &'a Watch,
    /// Number of the run, and total number of runs.
    run: String,
}

impl Watch {
    pub(super) fn new(quiet: bool, json: bool, jobs: NonZeroUsize) -> Self {
        let terminal = !quiet && jobs == NonZeroUsize::MIN && io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {msg}").expect("the template is a constant");
            ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { quiet, of_rows: RowWarnings::new(quiet, json), bar, heard: Mutex::default() }
    }

    fn line(&self, text: &str) {
        if !self.quiet {
            self.always(text);
        }
    }

    fn always(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprint_line(text)),
            None => eprint_line(text),
        }
    }

    /// Starts a comparison of `runs` runs. The journal has `journal` of them, and `unfinished` others have charged
    /// steps.
    pub(super) fn begins(&self, runs: usize, journal: usize, unfinished: usize) {
        let from =
            if journal > 0 { format!("; {journal} finished before are looked up in runs.jsonl") } else { "".into() };
        self.line(&format!("{runs} {}{from}", if runs == 1 { "run" } else { "runs" }));
        if unfinished > 0 {
            let text = format!(
                "warning: {unfinished} earlier {} paid for steps and did not finish: what was paid stays charged (ledgers/), and a run \
                 that is run again is charged again",
                if unfinished == 1 { "run" } else { "runs" }
            );
            self.always(&text);
        }
    }

    /// Shows each warning once, even if several runs have it.
    pub(super) fn warn(&self, warnings: impl Iterator<Item = String>) {
        let warned = &mut self.heard.lock().unwrap_or_else(PoisonError::into_inner).warned;
        for warning in warnings {
            if !warned.contains(&warning) {
                self.always(&format!("warning: {warning}"));
                warned.push(warning);
            }
        }
    }

    /// Shows a warning about rows once.
    pub(super) fn of_rows(&self, text: &str) {
        let warned = &mut self.heard.lock().unwrap_or_else(PoisonError::into_inner).warned;
        if !warned.iter().any(|other| other == text) {
            warned.push(text.to_owned());
            self.of_rows.tell(text, |line| self.always(line));
        }
    }

    /// Starts a run.
    pub(super) fn run(&self, task: &Task, at: &Position, budget: &str) -> RunWatch<'_> {
        let what = match task.purpose {
            ComparisonPurpose::Final if !task.candidates.is_empty() => match task.seed {
                Some(seed) => format!("private search, seed {seed}"),
                None => format!("private search {}", task.repeat),
            },
            ComparisonPurpose::Final => match task.seed {
                Some(seed) => format!("seed {seed}"),
                None => format!("repeat {}", task.repeat),
            },
            ComparisonPurpose::Tuning => format!("trying {}", task.chosen.join(", ")),
        };
        let left = at.seconds_left.map(|left| format!("  {} left", duration(left))).unwrap_or_default();
        let run = format!("run {}/{}  {}, {budget} {}, {what}{left}", at.number, at.total, task.label, task.budget);
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_message(run.clone());
        }
        RunWatch { watch: self, run }
    }
}

impl RunWatch<'_> {
    /// Ends the run.
    pub(super) fn ends(&self, result: &Result<ComparisonFigures, String>) {
        if let Some(bar) = &self.watch.bar {
            bar.set_position(0);
        }
        let outcome: &dyn fmt::Display = match result {
            Ok(ComparisonFigures { test_accuracy: Some(accuracy), seconds, .. }) => {
                &format!("{:.2} % in {seconds:.1} s", 100.0 * accuracy)
            }
            Ok(ComparisonFigures { test_loss: Some(loss), seconds, .. }) => {
                &format!("loss {loss:.4} in {seconds:.1} s")
            }
            Ok(_) => &"its loss is not a finite number",
            Err(reason) => &format!("refused: {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")),
        };
        self.watch.line(&format!("{}: {outcome}", self.run));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn eprint_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

impl Progress for RunWatch<'_> {
    fn on_event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Opened(note) => {
                let heard = &mut self.watch.heard.lock().unwrap_or_else(PoisonError::into_inner).backend;
                if heard != note {
                    note.clone_into(heard);
                    self.watch.line(&format!("backend: {}", with_flags(note)));
                }
            }
            RunEvent::Stepped { at, .. } => {
                if let Some(bar) = &self.watch.bar {
                    bar.set_length(u64::from(at.steps));
                    bar.set_position(u64::from(at.step));
                }
            }
            RunEvent::Warned(text) => self.watch.warn([with_flags(text)].into_iter()),
            _ => {}
        }
    }

    fn data_warning(&mut self, text: &str) {
        self.watch.of_rows(text);
    }
}
