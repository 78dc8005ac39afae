//! ε of several runs on the same data, by composition.

use damper_accounting::pld::Neighbours;
use damper_accounting::{Accountant, AccountingError, Event, Recorded};

/// Returns the releases of `run`, counted for all of its samples, because a held-out row of a run may be a training row
/// of another run. A private search keeps its event.
fn for_any_sample(run: &Recorded) -> Result<Event, AccountingError> {
    let parts = run.parts();
    if parts.search.is_some() {
        return run.checked().cloned();
    }
    let mut draws = Event::Compose(parts.draws.to_vec());
    if let Some(truncation) = parts.truncation {
        draws = draws.truncated(truncation);
    }
    Ok(Event::compose([draws, Event::Compose(parts.held_out.to_vec())].into_iter().chain(parts.release()?)))
}

/// Returns ε at `delta` of all `runs` together. It uses privacy loss distributions of all their events, or Rényi
/// divergences if any of them is a private search. It is 0 without events.
///
/// Truncated draws are other draws with some probability. The probabilities of all runs are added. The total is
/// accounted as one run that is truncated with that probability.
///
/// # Errors
///
/// An event is damaged, the number of distinct events is too large, or no finite ε holds.
pub fn cost(runs: &[&Recorded], delta: f64, neighbours: Neighbours) -> Result<f64, AccountingError> {
    let has_blocks = |run: &&Recorded| run.parts().correlation.is_some() && run.sampler.has_coins();
    if neighbours == Neighbours::Replace && runs.iter().any(has_blocks) {
        return Err(AccountingError::ReplacedBlocks);
    }
    let releases = runs.iter().filter(|run| run.releases() > 0);
    let all: Vec<Event> = releases.map(|run| for_any_sample(run)).collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Ok(0.0);
    }
    let all = Event::compose(all);
    let bound = match neighbours {
        Neighbours::AddOrRemove => all.epsilon(Accountant::Pld, delta),
        Neighbours::Replace => all.epsilon_of_replaced(delta),
    };
    Ok(bound?.epsilon)
}
