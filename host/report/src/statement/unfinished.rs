//! Statement on a run that was killed or failed: ε of the charged steps in its ledger, under its plan.

use crate::evidence::{EVENTS, EvidenceError, RECORD, bytes, fault, is_there};
use damper_accounting::{Accountant, Recorded, upward};
use damper_budget::{PLAN, RunPlan};
use damper_train::files;
use damper_train::{LEDGER, paid_steps};
use serde::Serialize;
use std::path::Path;

/// Statement on an unfinished run. Its first keys are those of a finished run's statement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Unfinished {
    /// ε of the charged steps, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Smallest σ of a charged event over the clip, with all releases together.
    pub noise_multiplier: f64,
    /// Largest sampling rate of a charged event.
    pub sampling_rate: f64,
    /// Number of charged steps, at least the number with a release.
    pub steps: u32,
    /// Accountant of the plan.
    pub accountant: Accountant,
    /// The guarantee in a sentence, or the reason that there is none.
    pub guarantee: String,
    /// True if `guarantee` states a guarantee.
    pub guaranteed: bool,
    /// Always false.
    pub finished: bool,
    /// `private` or `simulation`.
    pub run: String,
    /// Number of steps of the whole plan.
    pub planned_steps: u32,
    /// The assumptions of the guarantee.
    pub assumptions: Vec<String>,
    /// Version of damper that computed this.
    pub damper: &'static str,
    /// Events of the charged steps, which determine ε.
    pub events: Recorded,
}

/// Returns true if `folder` holds a finished run's records.
///
/// # Errors
///
/// Their metadata cannot be read.
pub fn is_finished(folder: &Path) -> Result<bool, EvidenceError> {
    Ok(is_there(&folder.join("report.json"))? && is_there(&folder.join("events.json"))?)
}

/// Reads the plan in a run's folder, if it has one.
///
/// # Errors
///
/// It is damaged.
pub fn planned(folder: &Path) -> Result<Option<RunPlan>, EvidenceError> {
    let path = folder.join("checkpoint").join(PLAN);
    if !is_there(&path)? {
        return Ok(None);
    }
    RunPlan::from_json(&bytes(&path, EVENTS)?).map(Some).map_err(|reason| {
        let what = format!(
            "damaged ({reason}), so the folder does not show what its run cost; compute a bound with damper epsilon from \
             the run's `noise_multiplier`, `sampling_rate`, `steps` and `delta`"
        );
        fault(&path, &what)
    })
}

/// Returns the number of steps that the ledger in `folder` charges under `plan`.
///
/// # Errors
///
/// The ledger is missing or damaged. The message gives ε of the whole plan, which is an upper bound.
pub fn paid(folder: &Path, plan: &RunPlan) -> Result<u32, EvidenceError> {
    let path = folder.join("checkpoint").join(LEDGER);
    let found = if is_there(&path)? { paid_steps(&bytes(&path, RECORD)?, plan) } else { Err("missing".into()) };
    found.map_err(|reason| {
        let (accountant, delta) = (plan.events.accountant, plan.events.delta);
        let bound = plan.events.epsilon(accountant, delta).map_or_else(
            |error| format!("no finite epsilon holds for its plan ({error})"),
            |priced| {
                format!(
                    "all {} planned steps cost epsilon at most {} at delta {delta:e}; use this bound (damper epsilon {} `planned`)",
                    plan.steps,
                    upward(priced.epsilon),
                    folder.display()
                )
            },
        );
        fault(&path, &format!("missing or damaged ({reason}), so the number of paid steps is unknown; {bound}"))
    })
}

impl Unfinished {
    /// Reads the plan and the ledger in `folder`. Returns `None` if the run has finished, or has no plan.
    ///
    /// # Errors
    ///
    /// The plan or the ledger is damaged, or no finite ε holds.
    pub fn read(folder: &Path) -> Result<Option<Self>, EvidenceError> {
        if is_finished(folder)? {
            return Ok(None);
        }
        let Some(plan) = planned(folder)? else { return Ok(None) };
        let steps = paid(folder, &plan)?;
        let events = plan.paid(steps);
        let priced = events.epsilon(events.accountant, events.delta);
        let epsilon = priced.map_err(|error| fault(&folder.join("checkpoint").join(PLAN), &error.to_string()))?.epsilon;
        let figures = format!("ε = {} at δ = {:e}", upward(epsilon), events.delta);
        let guaranteed = plan.is_guaranteed();
        let parts = events.parts();
        let releases = [
            parts.normalize.map(|_| " and of the features' released means and deviations"),
            parts.non_finite.map(|_| " and of the released number of samples without a finite gradient"),
        ];
        let release: String = releases.into_iter().flatten().collect();
        let guarantee = if guaranteed && parts.search.is_some() {
            format!(
                "The best candidate of this search is differentially private with {figures}: that is the cost of the whole search, which is charged \
                 before its first candidate."
            )
        } else if guaranteed {
            format!(
                "Whatever this run released is differentially private with {figures}: that is the cost of its {steps} paid \
                 steps{release}, and it released at most those."
            )
        } else if plan.run == "private" {
            format!(
                "There is no guarantee: sums and noise are floats ({}). With real numbers, the {steps} paid steps would have \
                 {figures}.",
                plan.path
            )
        } else {
            format!(
                "There is no guarantee: the run is a {}, so its noise can be recomputed. A private run of {steps} steps would \
                 have {figures}.",
                plan.run
            )
        };
        Ok(Some(Self {
            epsilon,
            delta: events.delta,
            noise_multiplier: events.smallest_multiplier(),
            sampling_rate: events.largest_rate().as_f64(),
            steps,
            accountant: events.accountant,
            guarantee,
            guaranteed,
            finished: false,
            run: plan.run,
            planned_steps: plan.steps,
            assumptions: vec![
                "The run is unfinished. The figure counts paid steps, which are at least the steps that released something: steps \
                 are paid up to 64 at a time, before they release anything."
                    .into(),
                "Neighbours: one sample replaced by a null sample that contributes nothing; the number of samples is public, or was declared."
                    .into(),
                "The run stopped at a moment that does not depend on the data.".into(),
                "Not covered: exact figures on held-out rows, as the progress shows them; the folder checkpoint/, which is as \
                 secret as the data."
                    .into(),
                "This run alone: every further run on the same data adds to epsilon.".into(),
            ],
            damper: env!("CARGO_PKG_VERSION"),
            events,
        }))
    }

    /// Returns the content of `statement.json`, with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        files::json(self).expect("a statement has string keys and finite numbers")
    }
}
