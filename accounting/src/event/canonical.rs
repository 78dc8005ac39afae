//! The canonical form of an event: the draws and other releases of each disjoint set of samples. The privacy cost
//! follows from it.

use super::{Event, joint, repeated};
use crate::plan::with;
use crate::selection::{self, Curve};
use crate::{AccountingError, Truncation};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::numerics::up::mul_up;

/// The largest number of different draws that are composed if rates change (some seconds). At one rate, 100,000 draws
/// take one second.
pub(crate) const CHANGING: usize = 1 << 14;
/// The largest number of disjoint sets. Above it, a sample counts as a member of all sets of an event.
const MOST_PARTS: usize = 64;

/// The events that a sample of a disjoint set takes part in.
#[derive(Clone, Default)]
pub(crate) struct Part {
    /// All statistics as one release, before the draws.
    pub(crate) release: Option<SampledGaussian>,
    /// The draws in order, and releases at a rate of 1.
    pub(crate) draws: Vec<(SampledGaussian, u64)>,
    /// True if any draws are Poisson-sampled.
    pub(crate) has_coins: bool,
    has_fixed: bool,
    /// Truncated draws.
    cuts: Vec<(Truncation, Vec<(SampledGaussian, u64)>)>,
    /// True if truncations of several events add up.
    is_composed: bool,
    /// Private searches.
    pub(crate) searches: Vec<Searched>,
}

/// State of a private search.
#[derive(Clone)]
pub(crate) struct Searched {
    /// The divergences of the search's best candidate.
    curve: Curve,
    /// The smallest multiplier of its first candidate, and the number of its draws.
    least: f64,
    steps: u64,
}

/// The canonical form of `event`, for each disjoint set of samples.
pub(crate) fn parts(event: &Event) -> Result<Vec<Part>, AccountingError> {
    parts_of(event, 1)
}

fn parts_of(event: &Event, times: u64) -> Result<Vec<Part>, AccountingError> {
    match event {
        Event::Gaussian { .. } => {
            let draws = vec![(event.drawn(Rate::ONE)?, times)];
            Ok(vec![Part { draws, has_fixed: true, ..Part::default() }])
        }
        Event::Poisson { rate, event } => {
            let draws = vec![(event.drawn(*rate)?, times)];
            Ok(vec![Part { draws, has_coins: true, ..Part::default() }])
        }
        Event::Statistic { multiplier, .. } => {
            let release = Event::Gaussian { multiplier: *multiplier }.drawn(Rate::ONE)?;
            Ok(vec![Part { release: repeated(release, times)?, ..Part::default() }])
        }
        Event::Compose(events) => {
            let mut all = vec![Part::default()];
            for (event, each) in events {
                all = composed(all, parts_of(event, times.saturating_mul(*each))?)?;
            }
            all.iter_mut().for_each(|part| part.is_composed |= part.is_cut());
            Ok(all)
        }
        Event::Disjoint(sets) if sets.is_empty() => Ok(vec![Part::default()]),
        Event::Disjoint(sets) => {
            let each = sets.iter().map(|event| parts_of(event, times)).collect::<Result<Vec<_>, _>>()?;
            Ok(each.into_iter().flatten().collect())
        }
        Event::Truncated { truncation, event } => {
            let mut all = parts_of(event, times)?;
            for part in &mut all {
                if !part.searches.is_empty() {
                    return Err(AccountingError::TruncatedSearch);
                }
                part.cuts.push((*truncation, part.draws.clone()));
            }
            Ok(all)
        }
        Event::Correlated { noise, event } => {
            let mut all = parts_of(event, times)?;
            for part in &mut all {
                if part.has_coins && part.has_fixed || !part.searches.is_empty() {
                    return Err(AccountingError::Correlated);
                }
                noise.check(part.has_coins, &part.draws)?;
            }
            Ok(all)
        }
        Event::Selection { candidates, of } => {
            let each = of.iter().map(parts).collect::<Result<Vec<_>, _>>()?;
            let first = each.first().and_then(|parts| parts.first()).ok_or(AccountingError::Steps)?;
            let (least, steps) = (first.smallest_multiplier(), first.steps());
            let curve = candidates.best(&divergences(each.iter().flatten())?);
            let curve = if times == 1 { curve } else { curve.map(|divergence| mul_up(divergence, times as f64)) };
            Ok(vec![Part { searches: vec![Searched { curve, least, steps }], ..Part::default() }])
        }
    }
}

/// Combines every set of `all` with every set of `more`.
fn composed(mut all: Vec<Part>, mut more: Vec<Part>) -> Result<Vec<Part>, AccountingError> {
    if all.len().saturating_mul(more.len()) > MOST_PARTS {
        more = vec![more.iter().try_fold(Part::default(), |sum, part| sum.and(part))?];
    }
    if let [more] = &more[..] {
        all = all.into_iter().map(|part| part.and(more)).collect::<Result<_, _>>()?;
        return Ok(all);
    }
    all.iter().flat_map(|part| more.iter().map(|other| part.clone().and(other))).collect()
}

/// The largest divergences over all sets.
pub(crate) fn divergences<'a>(parts: impl Iterator<Item = &'a Part>) -> Result<Curve, AccountingError> {
    let each = parts
        .map(|part| if part.is_cut() { Err(AccountingError::TruncatedSearch) } else { part.curve(&part.settled()?) });
    each.reduce(|a, b| Ok(selection::larger(&a?, &b?))).unwrap_or(Err(AccountingError::Steps))
}

impl Part {
    /// Composes both parts in sequence.
    fn and(mut self, other: &Self) -> Result<Self, AccountingError> {
        self.release = joint(self.release, other.release)?;
        self.draws.extend_from_slice(&other.draws);
        self.cuts.extend_from_slice(&other.cuts);
        self.searches.extend_from_slice(&other.searches);
        self.has_coins |= other.has_coins;
        self.has_fixed |= other.has_fixed;
        self.is_composed |= other.is_composed;
        Ok(self)
    }

    /// The draws, with equal draws merged, in a plan's order.
    ///
    /// # Errors
    ///
    /// The part releases nothing, or it has more different draws at changing rates than are composed.
    pub(crate) fn settled(&self) -> Result<Vec<(SampledGaussian, u64)>, AccountingError> {
        let draws = counted(&self.draws);
        if draws.is_empty() && self.release.is_none() && self.searches.is_empty() {
            return Err(AccountingError::Steps);
        }
        let alike = draws.iter().all(|(event, _)| event.rate() == draws[0].0.rate());
        if alike || draws.len() <= CHANGING { Ok(draws) } else { Err(AccountingError::TooMany(draws.len())) }
    }

    /// The smallest multiplier of a draw.
    pub(crate) fn smallest_multiplier(&self) -> f64 {
        let of_draws = self.draws.iter().map(|(event, _)| event.multiplier());
        of_draws.chain(self.searches.iter().map(|search| search.least)).fold(f64::INFINITY, f64::min)
    }

    /// The total number of draws.
    pub(crate) fn steps(&self) -> u64 {
        let of_draws = self.draws.iter().map(|(_, times)| *times);
        of_draws.chain(self.searches.iter().map(|search| search.steps)).fold(0, u64::saturating_add)
    }

    /// Returns true if any draws are truncated.
    pub(crate) fn is_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// The truncation, and the probability that any draw is truncated, rounded up. `draws` is the result of
    /// [`Part::settled`].
    pub(crate) fn cut(&self) -> Option<(Truncation, f64)> {
        let (last, draws) = self.cuts.last()?;
        let any = if self.is_composed || self.cuts.len() > 1 {
            // Rounded up: the sum of two floats has an error of at most half a unit in the last place.
            self.cuts.iter().fold(0.0, |sum, (cut, draws)| (sum + cut.any(draws)) * (1.0 + f64::EPSILON)).min(1.0)
        } else {
            last.any(&counted(draws))
        };
        Some((*last, any))
    }

    /// The Rényi divergences of all releases, without truncation. `draws` is the result of [`Part::settled`].
    pub(crate) fn curve(&self, draws: &[(SampledGaussian, u64)]) -> Result<Curve, AccountingError> {
        let own = with(self.release, draws);
        if self.searches.is_empty() {
            return selection::of_events(&own);
        }
        let searched = self.searches.iter().fold(selection::NOTHING, |sum, one| selection::sum(&sum, &one.curve));
        if own.is_empty() { Ok(searched) } else { Ok(selection::sum(&searched, &selection::of_events(&own)?)) }
    }
}

/// Merges equal draws, ordered by multiplier and rate.
fn counted(draws: &[(SampledGaussian, u64)]) -> Vec<(SampledGaussian, u64)> {
    let mut draws: Vec<_> = draws.iter().copied().filter(|(_, times)| *times > 0).collect();
    draws.sort_by(|(a, _), (b, _)| (a.multiplier().total_cmp(&b.multiplier())).then(a.rate().cmp(&b.rate())));
    draws.dedup_by(|next, kept| {
        let alike = next.0 == kept.0;
        if alike {
            kept.1 = kept.1.saturating_add(next.1);
        }
        alike
    });
    draws
}
