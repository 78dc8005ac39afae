//! The plan of a run: everything that determines its privacy cost, written to disk before the first step is charged.
//!
//! The ledger has the number of charged steps. The plan has the events of each step. Together they give ε of a run that
//! was killed or failed.

use damper_accounting::{Recorded, RunKind};
use damper_files::{Access, FileError, sealed, write};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The value of [`RunPlan::path`] for discrete noise.
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
    /// Number of steps in one event: 1, an epoch, a cycle of groups, or all steps with correlated noise in a fixed
    /// order.
    pub steps_per_event: u32,
    /// Number of steps between evaluations, if there are evaluations before the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u32>,
    /// The events of all steps, in order.
    pub events: Recorded,
}

impl RunPlan {
    /// Returns the events of the first `paid` steps, and the releases before them, even if no step is charged. A part
    /// of an event counts as a whole event. With correlated noise in a fixed order, the first step charges the whole
    /// run. Releases from held-out rows follow the step that they evaluate, so those of the charged steps count.
    #[must_use]
    pub fn paid(&self, paid: u32) -> Recorded {
        if self.events.parts().search.is_some() && paid > 0 {
            // A search is charged as a whole before its first candidate, because the number of candidates is secret.
            return self.events.clone();
        }
        let paid = paid.min(self.steps);
        let evaluated = evaluations_until(paid, self.steps, self.evaluate_every);
        let mut first = self.events.first(u64::from(paid.div_ceil(self.steps_per_event.max(1))), u64::from(evaluated));
        first.steps = first.steps.map(|_| u64::from(paid));
        first
    }

    /// Returns true if ε holds for the mechanism that runs, exactly, with secret noise.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        self.run == RunKind::Private.to_string() && self.path == EXACT
    }

    /// Returns true if the run neither clips nor adds noise. Its plan has no events, and no ledger counts its steps.
    #[must_use]
    pub fn is_not_private(&self) -> bool {
        self.run == RunKind::NotPrivate.to_string()
    }

    /// Returns the SHA-256 of the plan, in hexadecimal. The ledger stores it too.
    #[must_use]
    pub fn digest(&self) -> String {
        sealed::digest(self)
    }

    /// Returns the content of the file: the plan and its digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        sealed::line("plan", "", self).0
    }

    /// Parses the content of a file. The error describes the damage.
    ///
    /// # Errors
    ///
    /// The content is not a plan, or its digest or its numbers of steps do not match.
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

    /// Writes the plan into `checkpoint`. The file is durable when this returns.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn write(&self, checkpoint: &Path) -> Result<(), FileError> {
        write(&checkpoint.join(PLAN), self.to_json().as_bytes(), Access::Private)
    }
}

/// Returns the number of evaluations in a run of `steps` steps: one at the end, and one every `between` steps before
/// it.
pub fn evaluations(steps: u32, between: Option<u32>) -> u32 {
    1 + between.map_or(0, |between| steps.saturating_sub(1) / between.max(1))
}

/// Returns the number of evaluations up to step `charged`.
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
