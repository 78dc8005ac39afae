//! Progress of a comparison on standard error: a line a run, and on a terminal a bar within it.

use super::super::flags::with_flags;
use super::super::progress::duration;
use damper_report::compare::{Figures, Position, Purpose, Task};
use damper_train::{Evaluation, Progress, StepReport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};

/// Who watches.
pub(super) struct Watch {
    quiet: bool,
    /// On a terminal.
    bar: Option<ProgressBar>,
    /// Which run it is, of how many.
    run: String,
    /// What was last told of the backend.
    backend: String,
    /// What was warned of.
    warned: Vec<String>,
}

impl Watch {
    pub(super) fn new(quiet: bool) -> Self {
        let terminal = !quiet && io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {msg}").expect("the template is a constant");
            ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { quiet, bar, run: String::new(), backend: String::new(), warned: Vec::new() }
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

    /// A comparison of `runs` begins; so many are in the journal.
    pub(super) fn begins(&self, runs: usize, journal: usize) {
        let from =
            if journal > 0 { format!("; {journal} finished before are looked up in runs.jsonl") } else { "".into() };
        self.line(&format!("{runs} {}{from}", if runs == 1 { "run" } else { "runs" }));
    }

    /// Each warning once, however many runs have it.
    pub(super) fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            if !self.warned.contains(&warning) {
                self.always(&format!("warning: {warning}"));
                self.warned.push(warning);
            }
        }
    }

    pub(super) fn run_begins(&mut self, task: &Task, at: &Position, budget: &str) {
        let what = match task.purpose {
            Purpose::Final => match task.seed {
                Some(seed) => format!("seed {seed}"),
                None => format!("repeat {}", task.repeat),
            },
            Purpose::Tuning => format!("trying {}", task.chosen.join(", ")),
        };
        let left = at.seconds_left.map(|left| format!("  {} left", duration(left))).unwrap_or_default();
        self.run = format!("run {}/{}  {}, {budget} {}, {what}", at.number, at.total, task.label, task.budget);
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_message(format!("{}{left}", self.run));
        }
        self.run.push_str(&left);
    }

    pub(super) fn run_ends(&mut self, result: &Result<Figures, String>) {
        if let Some(bar) = &self.bar {
            bar.set_position(0);
        }
        let outcome = match result {
            Ok(Figures { test_accuracy: Some(accuracy), seconds, .. }) => {
                format!("{:.2} % in {seconds:.1} s", 100.0 * accuracy)
            }
            Ok(Figures { test_loss: Some(loss), seconds, .. }) => format!("loss {loss:.4} in {seconds:.1} s"),
            Ok(_) => "its loss is not a finite number".into(),
            Err(reason) => format!("refused: {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")),
        };
        self.line(&format!("{}: {outcome}", self.run));
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

impl Progress for Watch {
    fn backend(&mut self, note: &str) {
        if self.backend != note {
            note.clone_into(&mut self.backend);
            self.line(&format!("backend: {}", with_flags(note)));
        }
    }

    fn step(&mut self, at: &StepReport, _: &mut dyn FnMut(u32) -> f64) {
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(at.steps));
            bar.set_position(u64::from(at.step));
        }
    }

    fn evaluated(&mut self, _: &Evaluation) {}
}
