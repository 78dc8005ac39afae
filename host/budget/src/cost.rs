//! ε of several runs on the same data, under composition.

use damper_accounting::pld::Neighbours;
use damper_accounting::{Accountant, AccountingError, Recorded, RecordedEvent, Sampler};
use damper_core::accounting::{Rate, SampledGaussian};

/// All releases of a run.
fn all_of(run: &Recorded) -> Result<impl Iterator<Item = RecordedEvent>, AccountingError> {
    let before = run.release()?.map(|event| RecordedEvent::new(&(event, 1)));
    Ok(run.events.iter().chain(&run.held_out).copied().chain(before))
}

/// All releases of `runs`.
fn all_of_each<'a>(runs: impl IntoIterator<Item = &'a Recorded>) -> Result<Vec<RecordedEvent>, AccountingError> {
    Ok(runs.into_iter().map(all_of).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// ε at `delta` of all `runs` together, by privacy loss distributions of all their events, or by Rényi divergences if one of them is a private
/// search. 0 if there is no event.
///
/// Draws that are cut are other draws with some probability. The probabilities of all runs add up, and the total is priced as one run
/// that is cut with that probability.
///
/// # Errors
///
/// An event is damaged, there are too many different ones, or no finite ε holds.
pub fn cost(runs: &[&Recorded], delta: f64, neighbours: Neighbours) -> Result<f64, AccountingError> {
    if neighbours == Neighbours::Replace && runs.iter().any(|run| run.has_blocks()) {
        return Err(AccountingError::ReplacedBlocks);
    }
    let mut cut = 0.0;
    let mut truncation = None;
    for run in runs {
        if let Some(found) = run.truncation {
            let events = run.events.iter().filter_map(|event| {
                let rate = Rate::from_numerator(event.sampling_rate_numerator).ok()?;
                Some((SampledGaussian::new(rate, event.noise_multiplier).ok()?, event.times))
            });
            // Rounded upward: the sum of two floats is off by half a unit at most.
            cut = (cut + found.any(&events.collect::<Vec<_>>())) * (1.0 + f64::EPSILON);
            truncation = Some(found);
        }
    }
    let all = Recorded {
        delta,
        accountant: Accountant::Pld,
        // An event of an epoch has a rate of 1, like a Poisson draw of everything.
        sampler: Sampler::Poisson,
        steps: None,
        truncation: None,
        // Each event is the price of its noise, correlated or not.
        correlation: None,
        search: None,
        // A row that one run holds out may be a training row of another: all releases count for it.
        events: all_of_each(runs.iter().copied())?,
        run: None,
        held_out: Vec::new(),
        normalize: None,
        non_finite: None,
    };
    if all.events() == 0 {
        return Ok(0.0);
    }
    let (searches, others): (Vec<&Recorded>, Vec<&Recorded>) =
        runs.iter().copied().partition(|run| run.search.is_some());
    if !searches.is_empty() {
        if neighbours == Neighbours::Replace {
            return Err(AccountingError::ReplacedSearch);
        }
        let events = all_of_each(others)?;
        let mut parts: Vec<Recorded> = searches.into_iter().cloned().collect();
        parts.push(Recorded { events, ..all });
        parts.retain(|part| part.events() > 0);
        let price = |delta| Recorded::epsilon_of_all(&parts, delta);
        return match truncation {
            Some(truncation) => Ok(truncation.price(delta, cut.min(1.0), price)?.price.epsilon),
            None => Ok(price(delta)?.epsilon),
        };
    }
    let price = |delta| match neighbours {
        Neighbours::AddOrRemove => all.epsilon(Accountant::Pld, delta),
        Neighbours::Replace => all.epsilon_of_replaced(delta),
    };
    match truncation {
        Some(truncation) => Ok(truncation.price(delta, cut.min(1.0), price)?.price.epsilon),
        None => Ok(price(delta)?.epsilon),
    }
}
