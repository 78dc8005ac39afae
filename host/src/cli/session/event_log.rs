//! Events of a run in progress, for programs: JSON lines (`--events FILE`) and TensorBoard's files
//! (`--tensorboard DIR`). Both have only released values, as the progress on a terminal.

mod tensorboard;

use crate::cli::Failure;
use damper_train::{Evaluation, Resumed, StepReport};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use tensorboard::TensorBoard;

/// Receiver of events.
pub(in crate::cli) struct EventLog {
    lines: Option<File>,
    board: Option<TensorBoard>,
    /// Reason why an event could not be written, which ends the run.
    pub(in crate::cli) failed: Option<Failure>,
}

impl EventLog {
    /// Opens the requested files. Lines are appended to an existing file.
    pub(in crate::cli) fn open(lines: Option<&Path>, board: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.map_err(|error| Failure::usage(format!("`events` {}: {error}; name another file", path.display())))
        };
        let lines = lines.map(open).transpose()?;
        let board = board.map(TensorBoard::create).transpose()?;
        Ok(Self { lines, board, failed: None })
    }

    /// Returns true if a file is open.
    pub(in crate::cli) fn is_open(&self) -> bool {
        self.lines.is_some() || self.board.is_some()
    }

    fn line(&mut self, event: &str, mut fields: Value) {
        let Some(file) = &mut self.lines else { return };
        let mut line = json!({ "event": event });
        if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object_mut()) {
            line.append(fields);
        }
        // A single write for each line, so that a reader sees complete lines.
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            self.failed = Some(Failure::usage(format!("`events`: {error}; see to the disk")));
        }
    }

    fn scalars(&mut self, step: u32, scalars: &[(&str, f64)]) {
        let Some(board) = &mut self.board else { return };
        if let Err(error) = board.scalars(step, scalars) {
            self.failed = Some(Failure::usage(format!("`tensorboard`: {error}; see to the disk")));
        }
    }

    /// Writes the start of the run, or of its continuation.
    pub(in crate::cli) fn begin(&mut self, run: &str, steps: u32, delta: Option<f64>) {
        let damper = env!("CARGO_PKG_VERSION");
        self.line("begin", json!({ "run": run, "steps": steps, "delta": delta, "damper": damper }));
    }

    pub(in crate::cli) fn backend(&mut self, note: &str) {
        self.line("backend", json!({ "note": note }));
    }

    pub(in crate::cli) fn warning(&mut self, text: &str) {
        self.line("warning", json!({ "text": text }));
    }

    pub(in crate::cli) fn resumed(&mut self, at: &Resumed<'_>) {
        self.line("resumed", json!({ "step": at.step, "lost_steps": at.lost }));
    }

    /// Reports the steps released so far, and their ε.
    pub(in crate::cli) fn step(&mut self, at: &StepReport, epsilon: f64) {
        self.line(
            "step",
            json!({ "step": at.step, "steps": at.steps, "epsilon": epsilon, "seconds": at.seconds.ceil() }),
        );
        if epsilon.is_finite() {
            self.scalars(at.step, &[("epsilon", epsilon)]);
        }
    }

    pub(in crate::cli) fn evaluated(&mut self, at: &Evaluation) {
        let Evaluation { step, epoch, epsilon, loss, accuracy } = *at;
        self.line(
            "evaluation",
            json!({ "step": step, "epoch": epoch, "epsilon": epsilon, "loss": loss, "accuracy": accuracy }),
        );
        let accuracy = accuracy.map(|accuracy| ("held_out/accuracy", accuracy));
        let scalars: Vec<_> = [("held_out/loss", loss)].into_iter().chain(accuracy).collect();
        self.scalars(step, &scalars);
    }

    /// Writes that the state after `step` steps is on the disk.
    pub(in crate::cli) fn saved(&mut self, step: u32) {
        self.line("checkpoint", json!({ "step": step }));
    }

    /// Writes that the run was stopped on request.
    pub(in crate::cli) fn stopped(&mut self, step: u32, epsilon: Option<f64>) {
        self.line("stopped", json!({ "step": step, "epsilon": epsilon }));
    }

    /// Writes that the run is finished.
    pub(in crate::cli) fn end(&mut self, epsilon: Option<f64>, delta: Option<f64>) {
        self.line("end", json!({ "epsilon": epsilon, "delta": delta }));
    }

    pub(in crate::cli) fn error(&mut self, message: &str) {
        self.line("error", json!({ "message": message }));
    }
}
