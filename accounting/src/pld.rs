//! The tight accountant: privacy loss distributions of the Poisson-subsampled Gaussian, composed by a Fourier
//! transform, with bounds on both sides.
//!
//! Steps of the computation, for each direction of neighbours and for any list of events:
//!
//! 1. `gaussian`: the Gaussian and its shift as finitely many points. The upper bound splits mass, the lower bound
//!    merges it.
//! 2. `draw`: the privacy loss of each point under the draw's mixture. The mass beyond the points has an infinite loss.
//!    A replaced sample has its own dominating pair in `replace`, and a group of samples has its pair in `group`.
//! 3. `knots`: events of many sizes as mixtures of few, from above.
//! 4. `grid`: losses on multiples of a step, split for the upper bound and merged for the lower bound. They are tilted,
//!    so that the bulk is at the losses that determine δ.
//! 5. `compose`: transform, product, inverse. All rounding errors are bounded, and added to δ or subtracted from it.
//!
//! [`epsilon`] returns an upper bound of ε, [`epsilon_lower_bound`] a lower bound. The exact ε of the ideal, continuous
//! mechanism is between them. [`discrete`] proves that the upper bound holds for the discrete mechanism that runs, and
//! gives the multiplier.
//!
//! `question` chooses step and length, and computes ε of one pair of neighbouring distributions. `shape` has the points
//! of releases that are not Gaussian, and `parts` composes them. `closed` has the exact cost of Gaussians without
//! sampling.

pub(crate) mod bound;
mod closed;
mod compose;
pub mod discrete;
#[cfg(test)]
mod double_double;
pub(crate) mod draw;
mod gaussian;
mod grid;
mod group;
mod knots;
pub(crate) mod parts;
mod question;
mod replace;
pub(crate) mod shape;

use crate::AccountingError;
use bound::Bound;
use damper_core::accounting::event::SampledGaussian;
use draw::Direction;
use question::{Pair, Question};
use serde::Serialize;
use std::num::NonZeroU32;

/// The neighbour relation.
///
/// ```
/// use damper_accounting::{pld::{self, Neighbours}, sampling_rate};
/// use damper_core::accounting::SampledGaussian;
///
/// let run = [(SampledGaussian::new(sampling_rate(0.01)?, 1.1).unwrap(), 1000)];
/// let epsilon = |neighbours| pld::epsilon(&run, neighbours, 1e-5);
/// assert!((1.51..1.52).contains(&epsilon(Neighbours::AddOrRemove)?));
/// assert!(epsilon(Neighbours::Replace)? > epsilon(Neighbours::AddOrRemove)?);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One sample is present or absent: added, removed, or replaced by a null sample. Multipliers are in units of the
    /// clip.
    #[default]
    AddOrRemove,
    /// One sample replaces another. A release moves by up to twice the clip. Multipliers are in units of the clip.
    Replace,
}

/// Returns ε at `delta` of all `events`, each with its number of repetitions, rounded up. This is an upper bound for
/// the continuous Gaussian. Infinite if no bound is found.
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

/// [`epsilon`] of the discrete Gaussian that runs. Its σ is at least [`SMALLEST_SIGMA`](crate::SMALLEST_SIGMA) grid
/// units in every release. The bound holds for the continuous Gaussian too.
///
/// # Errors
///
/// As [`epsilon`].
///
/// ```
/// use damper_accounting::{pld::{self, Neighbours}, sampling_rate};
/// use damper_core::accounting::SampledGaussian;
///
/// let run = [(SampledGaussian::new(sampling_rate(0.01)?, 1.1).unwrap(), 1000)];
/// let (low, high) = (pld::epsilon_lower_bound(&run, Neighbours::AddOrRemove, 1e-5)?,
///     pld::of_discrete(&run, Neighbours::AddOrRemove, 1e-5)?);
/// assert!(low < high && high < 1.003 * low);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
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

/// [`of_discrete`] of `times` equal draws if neighbours replace one sample by another.
///
/// The distance of their releases is at most `apart` times the distance of either from the release without the sample.
/// It is 2 if the clip is the only bound, and less if one-hot counts are released too
/// ([`apart`](crate::replaced::apart)).
pub(crate) fn of_replaced(event: SampledGaussian, times: u64, apart: f64, delta: f64) -> Result<f64, AccountingError> {
    let events = [(event, times)];
    check(&events, delta)?;
    Ok(match continuous(&events) {
        Some(events) => upper(&events, &[Pair::Replaced { apart: apart.clamp(1.0, 2.0) }], delta),
        None => f64::INFINITY,
    })
}

/// [`of_discrete`] if neighbours have either all or none of a group's `size` samples.
///
/// # Errors
///
/// As [`epsilon`].
///
/// ```
/// use damper_accounting::{pld, sampling_rate};
/// use damper_core::accounting::SampledGaussian;
/// use std::num::NonZeroU32;
///
/// let run = [(SampledGaussian::new(sampling_rate(0.01)?, 1.1).unwrap(), 1000)];
/// let two = NonZeroU32::new(2).unwrap();
/// let (low, high) = (pld::group_lower_bound(&run, two, 1e-5)?, pld::of_group(&run, two, 1e-5)?);
/// assert!(1.52 < low && low < high && high < 1.01 * low);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn of_group(events: &[(SampledGaussian, u64)], size: NonZeroU32, delta: f64) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(continuous(events).map_or(f64::INFINITY, |events| upper(&events, &of_size(size), delta)))
}

/// Returns a lower bound of ε at `delta` of all `events` for groups, of the continuous Gaussian. The exact ε is between
/// it and [`of_group`].
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

/// The continuous events whose post-processing gives the discrete events, up to a factor below every rounding. `None`
/// if a multiplier vanishes.
pub(crate) fn continuous(events: &[(SampledGaussian, u64)]) -> Option<Vec<(SampledGaussian, u64)>> {
    let bounded = |(event, times): &(SampledGaussian, u64)| {
        let multiplier = discrete::continuous(event.multiplier(), crate::SMALLEST_SIGMA as f64)?;
        Some((SampledGaussian::new(event.rate(), multiplier).ok()?, *times))
    };
    events.iter().map(bounded).collect()
}

/// Returns a lower bound of ε at `delta` of all `events` for the worst neighbours of the continuous Gaussian. It
/// transforms each different event, so many different events take long.
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
