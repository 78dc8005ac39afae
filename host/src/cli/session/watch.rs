//! Observers of a training run: a bar or lines, events, the file of metrics, and Ctrl-C.

use crate::cli::Failure;
use crate::cli::args::flags::with_flags;
use crate::cli::session::caller;
use crate::cli::session::event_log::EventLog;
use crate::cli::session::progress::{Watcher, twentieths_of};
use crate::cli::session::row_warnings::RowWarnings;
use crate::cli::session::signals::Signals;
use damper_report::{NonFiniteReport, OutputFolder, TrainReport};
use damper_train::{Evaluation, Progress, RecordRequest, Run, RunEvent, StepReport, recording_part};

/// Observer of `damper train`.
pub(in crate::cli) struct RunWatcher<'a> {
    watcher: Watcher,
    /// Destination of warnings about rows.
    of_rows: RowWarnings,
    run: &'a Run,
    folder: &'a OutputFolder,
    events: &'a mut EventLog,
    signals: &'a Signals,
    evaluations: Vec<Evaluation>,
    /// Number of reported quarters of the frozen part's values.
    quarters: u32,
    /// Number of twentieths of the run reported as events.
    twentieths: u32,
    /// Reason why metrics could not be written, which ends the run.
    failed: Option<Failure>,
}

impl<'a> RunWatcher<'a> {
    pub(in crate::cli) fn new(
        run: &'a Run,
        folder: &'a OutputFolder,
        (quiet, of_rows): (bool, RowWarnings),
        events: &'a mut EventLog,
        signals: &'a Signals,
    ) -> Self {
        let watcher = Watcher::new(run.price.terms.steps, quiet);
        let (evaluations, quarters, twentieths) = (vec![], 0, 0);
        Self { watcher, of_rows, run, folder, events, signals, evaluations, quarters, twentieths, failed: None }
    }

    /// Clears the bar. Returns the reason if the run had to end.
    pub(in crate::cli) fn finish(self) -> Option<Failure> {
        self.watcher.finish();
        self.failed.or(self.events.failed.take())
    }
}

impl RunWatcher<'_> {
    fn stepped(&mut self, at: &StepReport, epsilon: &mut dyn FnMut(u32) -> f64) {
        let mut last = None;
        let mut epsilon = |first: u32| match last {
            Some((known, epsilon)) if known == first => epsilon,
            _ => {
                let priced = epsilon(first);
                last = Some((first, priced));
                priced
            }
        };
        self.watcher.step(at, &mut epsilon);
        let reached = twentieths_of(at.step, at.steps);
        if self.events.is_open() && reached > self.twentieths {
            self.twentieths = reached;
            self.events.step(at, epsilon(at.step));
        }
    }

    fn evaluated(&mut self, evaluation: &Evaluation) {
        self.watcher.evaluated(evaluation);
        self.events.evaluated(evaluation);
        self.evaluations.push(*evaluation);
        let written = self.folder.write("metrics.csv", metrics(self.run, &self.evaluations).as_bytes());
        self.failed = written.err().map(Failure::from);
    }

    /// Writes a line for each quarter of the frozen part's values.
    fn computed_once(&mut self, share: f64) {
        let quarters = (4.0 * share) as u32;
        if quarters > self.quarters {
            self.quarters = quarters;
            self.watcher.line(&format!("frozen part: computed for {} % of the samples", 25 * quarters));
        }
    }

    fn unrecorded(&mut self, why: &str, has_part: bool) {
        let Some(RecordRequest { file, .. }) = &self.run.config.record else { return };
        let text = with_flags(&format!("`record`: the recording cannot go on ({why}), so the run goes on without it"));
        let part = recording_part(file);
        let left = format!("; {} is as secret as the data: remove it", part.display());
        self.watcher.warning(&format!("{text}{}", if has_part { left.as_str() } else { "" }));
        // The path of a recording is secret.
        self.events.warning(&text);
    }
}

impl Progress for RunWatcher<'_> {
    fn on_event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Opened(note) => {
                self.watcher.backend(note);
                self.events.backend(note);
            }
            RunEvent::ComputedOnce { share } => self.computed_once(share),
            RunEvent::Resumed(at) => {
                self.evaluations = at.evaluations.to_vec();
                self.watcher.resumed(&at);
                self.events.resumed(&at);
            }
            RunEvent::Warned(text) => {
                let text = with_flags(text);
                self.watcher.warning(&text);
                self.events.warning(&text);
            }
            RunEvent::Unrecorded { why, has_part } => self.unrecorded(why, has_part),
            RunEvent::Counted(count) => {
                let text =
                    NonFiniteReport::new(self.run, &count).map(|report| format!("before the first step: {report}"));
                text.iter().for_each(|text| self.watcher.line(&with_flags(text)));
            }
            RunEvent::Stepped { at, epsilon } => self.stepped(&at, epsilon),
            RunEvent::Evaluated(evaluation) => self.evaluated(&evaluation),
            RunEvent::Saved(step) => self.events.saved(step),
            // The end: the outputs are written first. Then its line follows.
            _ => {}
        }
    }

    fn data_warning(&mut self, text: &str) {
        self.of_rows.tell(text, |line| self.watcher.of_rows(line));
    }

    fn stop(&mut self) -> bool {
        self.failed.is_some() || self.events.failed.is_some() || self.signals.code().is_some() || caller::stop()
    }
}

/// Returns `metrics.csv` for these evaluations.
pub(in crate::cli) fn metrics(run: &Run, evaluations: &[Evaluation]) -> String {
    TrainReport::metrics(run.kind(), run.config.test_metrics, evaluations)
}
