//! The tight accountant: privacy loss distributions of the Poisson-subsampled Gaussian, composed by a Fourier transform, with
//! bounds on both sides.
//!
//! What is computed for each direction of neighbours, and for any list of events:
//!
//! 1. `gaussian`: the Gaussian and its shift as finitely many points, from above by splitting mass, from below by
//!    merging it;
//! 2. `draw`: the privacy loss of each point under the draw's mixture; what lies beyond the points is a loss of infinity. A replaced sample
//!    has a dominating pair of its own, in `replace`, and so has a group of samples, in `group`;
//! 3. `knots`: events of many sizes as mixtures of few, from above;
//! 4. `grid`: losses on multiples of a step, split from above and merged from below; tilted, so that the bulk lies where δ is
//!    decided;
//! 5. `compose`: transform, product, inverse; the rounding of all of it bounded, and added to δ or taken from it.
//!
//! [`epsilon`] gives an upper bound of ε, [`epsilon_lower_bound`] a lower one; the truth for the ideal, continuous mechanism lies
//! between. [`discrete`] says why the upper one holds for the discrete mechanism that runs, and at which multiplier.
//!
//! `question` chooses step and length, and answers for one pair of neighbouring distributions.

mod bound;
mod compose;
pub mod discrete;
#[cfg(test)]
mod double_double;
mod draw;
mod gaussian;
mod grid;
mod group;
mod knots;
mod question;
mod replace;

use crate::AccountingError;
use bound::Bound;
use damper_core::accounting::event::SampledGaussian;
use draw::Direction;
use question::{Pair, Question};
use serde::Serialize;
use std::num::NonZeroU32;

/// The neighbour relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One sample, there or not: added, removed, or replaced by a null sample. Multipliers are in units of the clip.
    #[default]
    AddOrRemove,
    /// One sample in the place of another. A release moves by up to twice the clip. Multipliers are in units of the clip.
    Replace,
}

/// ε at `delta` of all `events`, each so many times, rounded up: an upper bound for the continuous Gaussian. Infinite where
/// nothing is found to hold.
///
/// # Errors
///
/// δ must be above 0 and below 1, and there must be an event.
pub fn epsilon(events: &[(SampledGaussian, u64)], neighbours: Neighbours, delta: f64) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(upper(events, pairs(neighbours), delta))
}

fn upper(events: &[(SampledGaussian, u64)], pairs: &[Pair], delta: f64) -> f64 {
    pairs.iter().fold(0.0, |least, pair| {
        let mut question = Question::new(events, *pair, delta, Bound::Upper);
        question.least = least;
        question.answer(f64::INFINITY).unwrap_or(f64::INFINITY).max(least)
    })
}

/// [`epsilon`] of the discrete Gaussian that runs, whose σ is at least [`SMALLEST_SIGMA`](crate::SMALLEST_SIGMA) grid units in every
/// release (and so of the continuous one).
///
/// # Errors
///
/// As [`epsilon`].
pub fn of_discrete(
    events: &[(SampledGaussian, u64)],
    neighbours: Neighbours,
    delta: f64,
) -> Result<f64, AccountingError> {
    match continuous(events) {
        Some(events) => epsilon(&events, neighbours, delta),
        None => Ok(f64::INFINITY),
    }
}

/// [`of_discrete`] of `times` equal draws where neighbours have one sample in the place of another. Their releases lie at most `apart`
/// times as far from each other as either lies from the release without the sample: 2 if the clip is the only bound, less if one-hot counts are
/// released too ([`apart`](crate::replaced::apart)).
pub(crate) fn of_replaced(event: SampledGaussian, times: u64, apart: f64, delta: f64) -> Result<f64, AccountingError> {
    let events = [(event, times)];
    check(&events, delta)?;
    Ok(match continuous(&events) {
        Some(events) => upper(&events, &[Pair::Replaced { apart: apart.clamp(1.0, 2.0) }], delta),
        None => f64::INFINITY,
    })
}

/// [`of_discrete`] where neighbours have all of a group's `size` samples, or none of them.
///
/// # Errors
///
/// As [`epsilon`].
pub fn of_group(events: &[(SampledGaussian, u64)], size: NonZeroU32, delta: f64) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(continuous(events).map_or(f64::INFINITY, |events| upper(&events, &of_size(size), delta)))
}

/// A lower bound of ε at `delta` of all `events` for groups, of the continuous Gaussian: the truth lies between it and [`of_group`].
///
/// # Errors
///
/// As [`epsilon`].
pub fn group_lower_bound(
    events: &[(SampledGaussian, u64)],
    size: NonZeroU32,
    delta: f64,
) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(lower(events, &of_size(size), delta))
}

fn of_size(size: NonZeroU32) -> [Pair; 2] {
    [Direction::Remove, Direction::Add].map(|direction| Pair::Group { size: size.get(), direction })
}

/// The continuous events of which discrete ones are a post-processing, up to a factor below every rounding; `None` where a multiplier
/// vanishes.
pub(crate) fn continuous(events: &[(SampledGaussian, u64)]) -> Option<Vec<(SampledGaussian, u64)>> {
    let bounded = |(event, times): &(SampledGaussian, u64)| {
        let multiplier = discrete::continuous(event.multiplier(), crate::SMALLEST_SIGMA as f64)?;
        Some((SampledGaussian::new(event.rate(), multiplier).ok()?, *times))
    };
    events.iter().map(bounded).collect()
}

/// A lower bound of ε at `delta` of all `events` for the worst neighbours of the continuous Gaussian; the transform of each
/// different event is taken, so that many cost time.
///
/// # Errors
///
/// As [`epsilon`].
pub fn epsilon_lower_bound(
    events: &[(SampledGaussian, u64)],
    neighbours: Neighbours,
    delta: f64,
) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(lower(events, pairs(neighbours), delta))
}

fn lower(events: &[(SampledGaussian, u64)], pairs: &[Pair], delta: f64) -> f64 {
    let mut most = 0.0f64;
    for pair in pairs {
        let limit = Question::new(events, *pair, delta, Bound::Upper).answer(f64::INFINITY).unwrap_or(f64::INFINITY);
        most = most.max(Question::new(events, *pair, delta, Bound::Lower).answer(limit).unwrap_or(0.0));
    }
    most
}

fn check(events: &[(SampledGaussian, u64)], delta: f64) -> Result<(), AccountingError> {
    crate::delta::check_delta(delta)?;
    if events.iter().all(|(_, times)| *times == 0) { Err(AccountingError::Steps) } else { Ok(()) }
}

fn pairs(neighbours: Neighbours) -> &'static [Pair] {
    match neighbours {
        Neighbours::AddOrRemove => &[Pair::Sampled(Direction::Remove), Pair::Sampled(Direction::Add)],
        Neighbours::Replace => &[Pair::Replaced { apart: 2.0 }],
    }
}
