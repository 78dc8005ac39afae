//! A private search: the best of a random number of candidates, charged as a whole before the first one is trained.
//!
//! ```text
//! charge the search ─ draw K and K settings ─ train and score each ─► the best alone
//! ```
//!
//! [`damper_accounting::selection`] has the price and its proof. It asks that K and the settings are drawn as declared (`draw`, exact), that
//! each candidate has a fresh key, that the score is a release of the candidate or a function of public data, and that nothing else is
//! released. So the number of candidates, their order and the others' scores reach no output and no progress. The time that a search
//! takes does depend on K.

mod candidate_epsilon;
mod draw;

pub use candidate_epsilon::calibrated;
pub use draw::{Candidate, candidates};

use damper_accounting::{AccountingError, CandidateCount, RunParts, RunSearch};
use damper_budget::RunPlan;

/// The plan of a search among candidates with these plans: that of the first, with the events of the others.
///
/// # Errors
///
/// Draws are cut, which has no divergence.
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
