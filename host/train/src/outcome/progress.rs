//! The events of a run, and who listens to them.
//!
//! # Privacy
//!
//! An event has public values, and values that were released. Exact figures of held-out rows are the exception: ε does not cover these
//! rows, and reports name them as not covered. So a listener may show, log and keep all of them. A listener that needs more
//! is a part of the engine: a checkpoint has the key, the parameters and the optimizer's state, a recording has the gradients, and the
//! best parameters are copied before anyone else has them. The engine calls these itself, at the places of the events.

use crate::config::release_non_finite::NonFiniteCount;
use crate::outcome::Evaluation;

/// An event of a run.
pub enum RunEvent<'a> {
    /// A backend was opened: one line on which and why.
    Opened(&'a str),
    /// A share of all samples has its values of the frozen part, which are computed once before the first step.
    ComputedOnce {
        /// From 0 to 1.
        share: f64,
    },
    /// A run that had stopped goes on.
    Resumed(Resumed<'a>),
    /// A public fact is worth a warning. It does not depend on rows of the data.
    Warned(&'a str),
    /// A run that goes on cannot go on with its recording.
    Unrecorded {
        /// The cause.
        why: &'a str,
        /// True if a part of the recording is on the disk.
        has_part: bool,
    },
    /// The number of training rows without a finite gradient was released, with noise that ε covers.
    Counted(NonFiniteCount),
    /// Some steps were released.
    Stepped {
        /// The progress of the run.
        at: StepReport,
        /// ε of the run's first steps, at least of those released: an upper bound by the run's accountant that never falls. A call takes
        /// some tens of milliseconds, and a second or two for thousands of different steps.
        epsilon: &'a mut dyn FnMut(u32) -> f64,
    },
    /// The held-out split was evaluated.
    Evaluated(Evaluation),
    /// The state after so many steps is on the disk.
    Saved(u32),
    /// The last step was taken.
    Ended(Ended),
}

/// The end of a run's steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Steps taken.
    pub step: u32,
    /// The cause.
    pub cause: EndCause,
}

/// Why no step follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndCause {
    /// All steps are taken.
    Complete,
    /// The evaluations stopped to improve.
    Early,
    /// The listener asked for it.
    Stopped,
}

/// Progress of the run, from public figures alone: speed is counted in expected samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepReport {
    /// Steps released.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Seconds since the first.
    pub seconds: f64,
    /// Expected samples a second.
    pub samples_per_second: f64,
}

/// The point from which a run resumes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resumed<'a> {
    /// Steps that it has taken.
    pub step: u32,
    /// Steps after those that were charged and are lost.
    pub lost: u32,
    /// Evaluations so far.
    pub evaluations: &'a [Evaluation],
}

/// A listener to a run. `()` ignores all of it.
pub trait Progress {
    /// Takes an event.
    fn on_event(&mut self, _event: RunEvent<'_>) {}

    /// Takes a warning that depends on rows of the data, which ε does not cover. It is not an event, so it reaches no file, log or report. It is
    /// for an interactive terminal, and for a caller that asks for it.
    fn data_warning(&mut self, _text: &str) {}

    /// Returns true if the run is to stop after the step that it has taken.
    fn stop(&mut self) -> bool {
        false
    }
}

impl Progress for () {}
