//! The plan of a run: everything that its privacy cost follows from, written to disk before the first step is charged.
//!
//! The ledger counts paid steps. The plan says what each step costs. Together they give ε of a run that was killed or failed.

use damper_accounting::{Recorded, RunKind};
use damper_files::{Access, FileError, sealed, write};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// [`RunPlan::path`] of discrete noise.
pub const EXACT: &str = "exact";

/// The plan's file in the private folder `checkpoint`.
pub const PLAN: &str = "plan.json";

/// The plan of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// `private`, `simulation` if the seed is known, or `not private`.
    pub run: String,
    /// `exact`, `float`, or `float, clipped by the backend`.
    pub path: String,
    /// Number of steps.
    pub steps: u32,
    /// Steps of one event: 1, or those of an epoch or of a cycle of groups, or all with correlated noise in a fixed order.
    pub steps_per_event: u32,
    /// Steps from one evaluation to the next, where some come before the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u32>,
    /// The events of all steps, in order.
    pub events: Recorded,
}

impl RunPlan {
    /// The events of the first `paid` steps, and the releases before them, even if no step is paid. A part of an event counts as an event: with
    /// correlated noise in a fixed order, the first step pays for the whole run. Releases from held-out rows come after the step that
    /// they evaluate, so those of the paid steps count.
    #[must_use]
    pub fn paid(&self, paid: u32) -> Recorded {
        if self.events.parts().search.is_some() && paid > 0 {
            // A search is charged as a whole before its first candidate: how many of them there were is secret.
            return self.events.clone();
        }
        let paid = paid.min(self.steps);
        let evaluated = evaluations_until(paid, self.steps, self.evaluate_every);
        let mut first = self.events.first(u64::from(paid.div_ceil(self.steps_per_event.max(1))), u64::from(evaluated));
        first.steps = first.steps.map(|_| u64::from(paid));
        first
    }

    /// Returns true if ε is of the mechanism that runs, bit for bit, with noise that nobody knows.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        self.run == RunKind::Private.to_string() && self.path == EXACT
    }

    /// Returns true if the run neither clips nor adds noise. Its plan has no events, and no ledger counts its steps.
    #[must_use]
    pub fn is_not_private(&self) -> bool {
        self.run == RunKind::NotPrivate.to_string()
    }

    /// SHA-256 of the plan, in hexadecimal. The ledger holds it too.
    #[must_use]
    pub fn digest(&self) -> String {
        sealed::digest(self)
    }

    /// The file's content: the plan and its digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        sealed::line("plan", "", self).0
    }

    /// Reads the file's content. The error says what is damaged.
    ///
    /// # Errors
    ///
    /// The content is no plan, or its digest or its numbers of steps do not match.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            plan: RunPlan,
            sha256: String,
        }
        let File { plan, sha256 } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if plan.digest() != sha256 {
            return Err("its digest does not match".into());
        }
        let events = match plan.is_not_private() {
            true => 0,
            false => u64::from(plan.steps.div_ceil(plan.steps_per_event.max(1))),
        };
        if plan.steps == 0 || plan.steps_per_event == 0 || plan.events.events() != events {
            return Err("its numbers of steps do not match".into());
        }
        Ok(plan)
    }

    /// Writes the plan into `checkpoint`. When it returns, the file survives a power cut.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn write(&self, checkpoint: &Path) -> Result<(), FileError> {
        write(&checkpoint.join(PLAN), self.to_json().as_bytes(), Access::Private)
    }
}

/// The evaluations of a run of `steps` steps: one at the end, and one every `between` steps before it.
pub fn evaluations(steps: u32, between: Option<u32>) -> u32 {
    1 + between.map_or(0, |between| steps.saturating_sub(1) / between.max(1))
}

/// Number of evaluations after the first `charged` steps or before.
pub fn evaluations_until(charged: u32, steps: u32, between: Option<u32>) -> u32 {
    if charged >= steps { evaluations(steps, between) } else { between.map_or(0, |between| charged / between.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_counted_as_they_come() {
        for steps in 1..40u32 {
            for between in [None, Some(1), Some(3), Some(10), Some(39), Some(100)] {
                let come = (1..=steps).filter(|done| *done == steps || between.is_some_and(|b| done % b == 0)).count();
                assert_eq!(evaluations(steps, between) as usize, come, "{steps} {between:?}");
                for charged in 0..=steps {
                    let is_one = |done: &u32| *done == steps || between.is_some_and(|b| done.is_multiple_of(b));
                    let come = (1..=charged).filter(is_one).count();
                    assert_eq!(evaluations_until(charged, steps, between) as usize, come);
                }
            }
        }
    }
}
