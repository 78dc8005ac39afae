//! The events of a run, and their listener.
//!
//! # Privacy
//!
//! An event has public values and released values. Exact figures of held-out rows are the exception. ε does not cover
//! these rows, and reports list them as not covered. So a listener may show, log and keep all of them.
//!
//! Code that needs more is part of the engine, which calls it at the points of the events. A checkpoint has the key,
//! the parameters and the optimizer's state. A recording has the gradients. The best parameters are copied before
//! anyone else has them.

use crate::config::release_non_finite::NonFiniteCount;
use crate::outcome::Evaluation;

/// An event of a run.
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// A backend was opened. One line with the backend and the reason for its choice.
    Opened(&'a str),
    /// This share of all samples has its values of the frozen part, which are computed once before the first step.
    ComputedOnce {
        /// From 0 to 1.
        share: f64,
    },
    /// A stopped run resumes.
    Resumed(Resumed<'a>),
    /// A warning about a public fact. It does not depend on rows of the data.
    Warned(&'a str),
    /// A resumed run cannot continue its recording.
    Unrecorded {
        /// The cause.
        why: &'a str,
        /// True if a part of the recording is on disk.
        has_part: bool,
    },
    /// The number of training rows without a finite gradient was released, with noise. ε covers it.
    Counted(NonFiniteCount),
    /// Steps were released.
    Stepped {
        /// The progress of the run.
        at: StepReport,
        /// ε of the run's first steps, counting at least the released steps. It is an upper bound by the run's
        /// accountant and never falls. A call takes tens of milliseconds, or a second or two for thousands of different
        /// steps.
        epsilon: &'a mut dyn FnMut(u32) -> f64,
    },
    /// The held-out split was evaluated.
    Evaluated(Evaluation),
    /// The state after this many steps is on disk.
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

/// The reason why the steps end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndCause {
    /// All steps are taken.
    Complete,
    /// The evaluations stopped improving.
    Early,
    /// The listener requested a stop.
    Stopped,
}

/// Progress of the run, from public figures alone. Speed is counted in expected samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepReport {
    /// Number of released steps.
    pub step: u32,
    /// Number of steps in total.
    pub steps: u32,
    /// Seconds since the first step.
    pub seconds: f64,
    /// Expected samples per second.
    pub samples_per_second: f64,
}

/// The point from which a run resumes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resumed<'a> {
    /// Number of steps taken.
    pub step: u32,
    /// Charged steps after those, which are lost.
    pub lost: u32,
    /// Evaluations so far.
    pub evaluations: &'a [Evaluation],
}

/// A listener to a run. `()` ignores all events.
pub trait Progress {
    /// Handles an event.
    fn on_event(&mut self, _event: RunEvent<'_>) {}

    /// Handles a warning that depends on rows of the data, which ε does not cover. It is not an event, so it is not
    /// written to files, logs or reports. It is for an interactive terminal, and for a caller that requests it.
    fn data_warning(&mut self, _text: &str) {}

    /// Returns true if the run must stop after the current step.
    fn stop(&mut self) -> bool {
        false
    }
}

impl Progress for () {}
