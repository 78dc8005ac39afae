//! Progress on standard error. On a terminal it is a bar. Otherwise it is a line for every twentieth of the run, and
//! for every minute.

use crate::cli::args::flags::with_flags;
use crate::cli::session::caller;
use crate::cli::warn;
use damper_accounting::upward;
use damper_train::{Evaluation, Resumed, StepReport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Maximum time without a line.
const MINUTE: Duration = Duration::from_secs(60);

/// Observer of a run.
pub(in crate::cli) enum Watcher {
    /// A terminal, with the last computed ε and its step.
    Bar { bar: ProgressBar, steps: u32, priced: (u32, f64) },
    /// A file or a pipe, with the number of reported twentieths and the time of the last line.
    Lines { twentieths: u32, steps: u32, last: Instant },
    /// The calling program, with the last computed ε and its step.
    Caller { priced: (u32, f64) },
    /// No observer.
    Quiet,
}

impl Watcher {
    /// Creates the observer of a run of `steps` steps.
    pub(in crate::cli) fn new(steps: u32, quiet: bool) -> Self {
        if caller::is_active() {
            Self::Caller { priced: (0, 0.0) }
        } else if quiet {
            Self::Quiet
        } else if io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {msg}").expect("the template is a constant");
            let bar = ProgressBar::with_draw_target(Some(u64::from(steps)), ProgressDrawTarget::stderr());
            Self::Bar { bar: bar.with_style(style), steps, priced: (0, 0.0) }
        } else {
            Self::Lines { twentieths: 0, steps, last: Instant::now() }
        }
    }

    /// Prints a line, if there is an observer.
    pub(in crate::cli) fn line(&self, text: &str) {
        match self {
            Self::Bar { bar, .. } => bar.println(text),
            Self::Lines { .. } => {
                let _ = writeln!(io::stderr(), "{text}");
            }
            Self::Caller { .. } => {
                caller::tell("note", json!({ "text": text }));
            }
            Self::Quiet => {}
        }
    }

    /// Prints the step at which a resumed run continues.
    pub(in crate::cli) fn resumed(&self, at: &Resumed<'_>) {
        let Resumed { step, lost, .. } = *at;
        self.line(&match lost {
            0 => format!("resumed after step {step}"),
            _ => format!(
                "resumed after step {step} with another program, backend or processor: {lost} charged steps are lost, for their \
                 noise is not used twice"
            ),
        });
    }

    /// Prints a warning, even without an observer.
    pub(in crate::cli) fn warning(&self, text: &str) {
        match self {
            Self::Bar { bar, .. } => bar.println(format!("warning: {text}")),
            Self::Lines { .. } | Self::Caller { .. } | Self::Quiet => warn(text),
        }
    }

    /// Prints a line about rows, on a terminal.
    pub(in crate::cli) fn of_rows(&self, line: &str) {
        let write = || {
            let _ = writeln!(io::stderr(), "{line}");
        };
        match self {
            Self::Bar { bar, .. } => bar.suspend(write),
            Self::Lines { .. } | Self::Caller { .. } | Self::Quiet => write(),
        }
    }

    /// Clears the bar.
    pub(in crate::cli) fn finish(self) {
        if let Self::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

/// Events of a run.
impl Watcher {
    pub(super) fn backend(&self, note: &str) {
        self.line(&format!("backend: {}", with_flags(note)));
    }

    pub(super) fn step(&mut self, at: &StepReport, epsilon: &mut dyn FnMut(u32) -> f64) {
        match self {
            Self::Bar { bar, priced, .. } => {
                price(at, priced, epsilon);
                bar.set_position(u64::from(at.step));
                bar.set_message(status(at, *priced));
            }
            Self::Lines { twentieths, last, .. } => {
                let reached = twentieths_of(at.step, at.steps);
                if reached > *twentieths || last.elapsed() >= MINUTE {
                    (*twentieths, *last) = (reached, Instant::now());
                    let priced = (at.step, epsilon(at.step));
                    self.line(&format!("step {}/{}  {}", at.step, at.steps, status(at, priced)));
                }
            }
            Self::Caller { priced } => {
                price(at, priced, epsilon);
                let (until, epsilon) = *priced;
                caller::tell(
                    "step",
                    json!({ "step": at.step, "steps": at.steps, "epsilon": epsilon, "by_step": until, "samples_per_second": at.samples_per_second }),
                );
            }
            Self::Quiet => {}
        }
    }

    pub(super) fn evaluated(&self, at: &Evaluation) {
        if let Self::Caller { .. } = self {
            let Evaluation { step, epoch, epsilon, loss, accuracy } = *at;
            caller::tell(
                "evaluation",
                json!({ "step": step, "epoch": epoch, "epsilon": epsilon, "loss": loss, "accuracy": accuracy }),
            );
            return;
        }
        let steps = match self {
            Self::Bar { steps, .. } | Self::Lines { steps, .. } => *steps,
            Self::Caller { .. } | Self::Quiet => 0,
        };
        // The summary has the last evaluation.
        if at.step < steps {
            let accuracy = at.accuracy.map(|a| format!("accuracy {:.2} %, ", 100.0 * a)).unwrap_or_default();
            let epsilon = epsilon_text(at.epsilon);
            self.line(&format!("epoch {:.1}: {accuracy}loss {:.4}, {epsilon}", at.epoch, at.loss));
        }
    }
}

/// Computes ε in advance, up to the end of a twentieth, if `at` is beyond the step of the last computed ε. So what an
/// event shows follows from its step, and not from the time of the reports before it, which ε does not cover.
fn price(at: &StepReport, priced: &mut (u32, f64), epsilon: &mut dyn FnMut(u32) -> f64) {
    if at.step > priced.0 {
        let until = end_of_twentieth(at.step, at.steps);
        *priced = (until, epsilon(until));
    }
}

/// Returns the number of complete twentieths of `steps` steps in `step` steps.
pub(in crate::cli) fn twentieths_of(step: u32, steps: u32) -> u32 {
    u32::try_from(u64::from(step) * 20 / u64::from(steps.max(1))).unwrap_or(20)
}

/// Returns `step` if it completes a twentieth of `steps` steps, or else the next step that does.
fn end_of_twentieth(step: u32, steps: u32) -> u32 {
    let complete = twentieths_of(step, steps);
    if complete > twentieths_of(step.saturating_sub(1), steps) {
        return step;
    }
    u32::try_from(((u64::from(complete) + 1) * u64::from(steps)).div_ceil(20)).unwrap_or(steps)
}

/// Formats speed, remaining time, and ε of the first `until` steps.
fn status(at: &StepReport, (until, epsilon): (u32, f64)) -> String {
    let left = at.seconds / f64::from(at.step.max(1)) * f64::from(at.steps - at.step);
    let by = if until > at.step { format!(" by step {until}") } else { String::new() };
    format!("{:.0} samples/s  {}{by}  {} left", at.samples_per_second, epsilon_text(epsilon), duration(left))
}

/// Formats ε. A run that is not private has no finite ε.
fn epsilon_text(epsilon: f64) -> String {
    if epsilon.is_finite() { format!("epsilon {}", upward(epsilon)) } else { "no epsilon".into() }
}

pub(in crate::cli) fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ε is computed for the same steps, whichever steps are reported.
    #[test]
    fn epsilon_is_of_the_end_of_a_twentieth() {
        assert_eq!([1, 4, 5, 6, 99, 100].map(|step| end_of_twentieth(step, 100)), [5, 5, 5, 10, 100, 100]);
        for steps in 1..90 {
            let ends: Vec<u32> = (1..=steps).filter(|step| step * 20 / steps > (step - 1) * 20 / steps).collect();
            for step in 1..=steps {
                assert_eq!(Some(end_of_twentieth(step, steps)), ends.iter().copied().find(|end| *end >= step));
            }
        }
    }

    // The status shows speed, epsilon and remaining time.
    #[test]
    fn status_shows_speed_epsilon_and_time() {
        let at = StepReport { step: 50, steps: 200, seconds: 30.0, samples_per_second: 1234.5 };
        assert_eq!(status(&at, (50, 0.5)), "1234 samples/s  epsilon 0.5000  1 min 30 s left");
        assert_eq!(status(&at, (60, 0.6)), "1234 samples/s  epsilon 0.6000 by step 60  1 min 30 s left");
        assert_eq!(status(&at, (50, f64::INFINITY)), "1234 samples/s  no epsilon  1 min 30 s left");
        assert_eq!(duration(7322.0), "2 h 02 min");
    }
}
