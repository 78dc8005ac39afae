//! A private search: the best of a random number of candidates. It is charged as a whole before the first candidate is
//! trained.
//!
//! ```text
//! charge the search ─ draw K and K settings ─ train and score each ─► the best alone
//! ```
//!
//! [`damper_accounting::selection`] has the privacy cost and its proof. The proof needs four conditions:
//!
//! - K and the settings are drawn exactly as declared (`draw`).
//! - Each candidate has a fresh key.
//! - The score is a release of the candidate or a function of public data.
//! - Nothing else is released.
//!
//! So the number of candidates, their order and the other scores do not appear in outputs or progress. The running time
//! of a search does depend on K.

mod candidate_epsilon;
mod draw;

pub use candidate_epsilon::calibrated;
pub use draw::{Candidate, candidates};

use damper_accounting::{AccountingError, CandidateCount, RunParts, RunSearch};
use damper_budget::RunPlan;

/// Returns the plan of a search among candidates with these plans: the first plan, with the events of the others.
///
/// # Errors
///
/// Batches are truncated, so the draws have no divergence.
pub fn plan(candidates: CandidateCount, plans: &[RunPlan]) -> Result<Option<RunPlan>, AccountingError> {
    let Some(first) = plans.first() else { return Ok(None) };
    let parts = first.events.parts();
    let mut others = Vec::new();
    for plan in plans {
        let other = plan.events.parts();
        if other.truncation.is_some() {
            return Err(AccountingError::TruncatedSearch);
        }
        let other = [other.draws, other.held_out];
        if other != [parts.draws, parts.held_out] && !others.contains(&other) {
            others.push(other);
        }
    }
    let search = Some(RunSearch { candidates, others });
    let found = RunPlan { events: first.events.with(&RunParts { search, ..parts }), ..first.clone() };
    Ok(Some(found))
}
