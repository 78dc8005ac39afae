//! The record of a run for an auditor: the events, from which ε follows without anything else.

#[cfg(test)]
mod tests;

use super::delta::{check_delta, smallest_delta};
use super::plan::with;
use super::pld::Neighbours;
use super::recorded_event::RecordedEvent;
use super::selection::{self, Curve};
use super::{Accountant, AccountingError, Correlated, EpsilonBound, Plan, Sampler, Search, Truncation, pld, smaller};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::least_epsilon;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most draws that are listed one by one.
const SCHEDULE: u64 = 1 << 24;
/// Most different draws that are priced where rates change (some seconds; at one rate, 100,000 draws take one second).
const CHANGING: usize = 1 << 14;

/// A private run, a simulation, or a run without privacy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// The key came from the operating system.
    Private,
    /// The seed is known, so the noise can be computed again and nothing is private. ε is what a private run would have.
    Simulation,
    /// Neither clipped nor with noise, by request. No event is recorded and no ε holds.
    #[serde(rename = "not private")]
    NotPrivate,
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Simulation => "simulation",
            Self::NotPrivate => "not private",
        })
    }
}

/// The events of a run, in the order of its steps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The δ of the run's claim.
    pub delta: f64,
    /// The accountant of the run's claim.
    pub accountant: Accountant,
    /// True if the run was private; none in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunKind>,
    /// The sampler.
    #[serde(default, skip_serializing_if = "Sampler::is_poisson")]
    pub sampler: Sampler,
    /// Steps that released something, where an event is an epoch of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// At which size draws were cut, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// The correlated noise that the events are of, if noise was correlated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlated>,
    /// The private search whose best candidate was released, if there was one: the events are those of one candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Every draw from which something was released.
    pub events: Vec<RecordedEvent>,
    /// Noisy releases from held-out samples. A sample is either a training sample or a held-out one, by public choice, so ε is the
    /// larger of the two parts: whatever a held-out sample is, the draws do not depend on it, and given what the draws released, the
    /// releases here do not depend on a training sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<RecordedEvent>,
    /// The release of the features' means and deviations from all training samples before the first draw, if there was one. ε composes
    /// it with the draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalize: Option<RecordedEvent>,
    /// The release of the number of training samples without a finite gradient, before the first draw, if there was one. Priced as
    /// `normalize` is; where there are both, they are one event (`SampledGaussian::and`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_finite: Option<RecordedEvent>,
}

impl Recorded {
    /// The Poisson draws, without truncation.
    #[must_use]
    pub fn new(accountant: Accountant, delta: f64, events: &[(SampledGaussian, u64)]) -> Self {
        let events = events.iter().map(RecordedEvent::new).collect();
        Self {
            delta,
            accountant,
            run: None,
            sampler: Sampler::Poisson,
            steps: None,
            truncation: None,
            correlation: None,
            search: None,
            events,
            held_out: Vec::new(),
            normalize: None,
            non_finite: None,
        }
    }

    /// The number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.iter().fold(0, |sum, event| sum.saturating_add(event.times))
    }

    /// The number of steps: draws, or batches.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.unwrap_or_else(|| self.events())
    }

    /// The releases from held-out samples, as a record of their own; none where there are none.
    #[must_use]
    pub fn of_held_out(&self) -> Option<Self> {
        let alone = Self {
            sampler: Sampler::Poisson,
            steps: None,
            truncation: None,
            correlation: None,
            search: None,
            events: self.held_out.clone(),
            held_out: Vec::new(),
            normalize: None,
            non_finite: None,
            ..*self
        };
        (!self.held_out.is_empty()).then_some(alone)
    }

    /// The draws and the releases before them: what a training sample is protected from.
    #[must_use]
    pub fn of_training(&self) -> Self {
        Self { held_out: Vec::new(), ..self.clone() }
    }

    /// The first `events` events, with the releases before them and all releases from held-out samples.
    #[must_use]
    pub fn first(&self, events: u64) -> Self {
        let mut left = events;
        let mut first = Vec::new();
        for event in &self.events {
            let times = event.times.min(left);
            left -= times;
            if times > 0 {
                first.push(RecordedEvent { times, ..*event });
            }
        }
        Self { events: first, ..self.clone() }
    }

    /// One of the events, in words.
    #[must_use]
    pub fn event_name(&self) -> &'static str {
        match (self.sampler, &self.correlation) {
            (Sampler::Poisson, _) => "a draw",
            (Sampler::CyclicPoisson, _) => "a draw of each group",
            (Sampler::MinSeparation, Some(_)) => "the whole run",
            (Sampler::Shuffled, _) | (Sampler::MinSeparation, None) => "an epoch",
        }
    }

    /// The smallest multiplier of a draw.
    #[must_use]
    pub fn smallest_multiplier(&self) -> f64 {
        self.events.iter().map(|event| event.noise_multiplier).fold(f64::INFINITY, f64::min)
    }

    /// The largest rate of a draw.
    #[must_use]
    pub fn largest_rate(&self) -> f64 {
        let numerator = self.events.iter().map(|event| event.sampling_rate_numerator).max();
        numerator.unwrap_or(0) as f64 / Rate::DENOMINATOR as f64
    }

    /// The events, those that are alike together, as a plan orders them.
    pub(super) fn checked(&self) -> Result<Vec<(SampledGaussian, u64)>, AccountingError> {
        let mut events = self.events.iter().map(|event| self.event(event)).collect::<Result<Vec<_>, _>>()?;
        if let Some(correlation) = &self.correlation {
            correlation.check(self.sampler, &events)?;
        }
        events.retain(|(_, times)| *times > 0);
        events.sort_by(|(a, _), (b, _)| (a.multiplier().total_cmp(&b.multiplier())).then(a.rate().cmp(&b.rate())));
        events.dedup_by(|next, kept| {
            let alike = next.0 == kept.0;
            if alike {
                kept.1 = kept.1.saturating_add(next.1);
            }
            alike
        });
        if events.is_empty() && self.before().next().is_none() {
            return Err(AccountingError::Steps);
        }
        let alike = events.iter().all(|(event, _)| event.rate() == events[0].0.rate());
        if alike || events.len() <= CHANGING { Ok(events) } else { Err(AccountingError::TooMany(events.len())) }
    }

    /// The releases before the draws, of which each sample is in all.
    pub fn before(&self) -> impl Iterator<Item = &RecordedEvent> {
        self.normalize.iter().chain(&self.non_finite)
    }

    /// The releases before the draws as one event, if there were some. Each is a Gaussian release at a rate of 1, so all of them are one with
    /// the summed inverse variances, rounded toward less noise.
    ///
    /// # Errors
    ///
    /// One of them is damaged: it has another rate, does not come once, or its multiplier is not above 0.
    pub fn release(&self) -> Result<Option<SampledGaussian>, AccountingError> {
        self.before().try_fold(None, |joint: Option<SampledGaussian>, recorded| {
            let event = self.release_of(recorded)?;
            Ok(Some(match joint {
                None => event,
                Some(joint) => joint
                    .and(event.multiplier())
                    .map_err(|_| AccountingError::NoiseMultiplier(recorded.noise_multiplier))?,
            }))
        })
    }

    fn release_of(&self, recorded: &RecordedEvent) -> Result<SampledGaussian, AccountingError> {
        let (event, times) = self.event(recorded)?;
        // A damaged record is no free release.
        if times != 1 {
            return Err(AccountingError::Steps);
        }
        if event.rate() == Rate::ONE { Ok(event) } else { Err(AccountingError::SamplingRate(event.rate().as_f64())) }
    }

    pub(super) fn event(&self, event: &RecordedEvent) -> Result<(SampledGaussian, u64), AccountingError> {
        let asked = event.sampling_rate_numerator as f64 / Rate::DENOMINATOR as f64;
        let rate = match Rate::from_numerator(event.sampling_rate_numerator) {
            Ok(rate) if rate != Rate::ZERO && (self.sampler.has_coins() || rate == Rate::ONE) => rate,
            _ => return Err(AccountingError::SamplingRate(asked)),
        };
        let found = SampledGaussian::new(rate, event.noise_multiplier)
            .map_err(|_| AccountingError::NoiseMultiplier(event.noise_multiplier))?;
        Ok((found, event.times))
    }

    /// ε at `delta`, from the events alone.
    ///
    /// # Errors
    ///
    /// The run is not private; a rate above 1 or a multiplier that is not above 0, as a damaged file may have; no event; or no finite
    /// ε.
    pub fn epsilon(&self, accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
        if self.search.is_some() {
            return Self::epsilon_of_all(std::slice::from_ref(self), delta);
        }
        self.priced(delta, |record, events, delta| record.uncut(accountant, events, delta))
    }

    /// ε at `delta` where neighbours have one sample in the place of another, by privacy loss distributions.
    ///
    /// Everything that a draw releases is part of its multiplier, so all of it counts as moved to the opposite.
    ///
    /// # Errors
    ///
    /// As [`Recorded::epsilon`].
    pub fn epsilon_of_replaced(&self, delta: f64) -> Result<EpsilonBound, AccountingError> {
        if self.has_blocks() {
            return Err(AccountingError::ReplacedBlocks);
        }
        if self.search.is_some() {
            return Err(AccountingError::ReplacedSearch);
        }
        self.priced(delta, |record, events, delta| {
            let all = with(record.release()?, events);
            Ok(EpsilonBound { epsilon: pld::of_discrete(&all, Neighbours::Replace, delta)?, order: None })
        })
    }

    /// Rényi divergences of everything in the record, whatever the accountant: of the best candidate of a search, or of a run.
    ///
    /// # Errors
    ///
    /// The run is not private, an event is damaged, or draws were cut, which has no divergence.
    pub fn divergences(&self) -> Result<Curve, AccountingError> {
        if self.run == Some(RunKind::NotPrivate) {
            return Err(AccountingError::NotPrivate);
        }
        if self.truncation.is_some() {
            return Err(AccountingError::TruncatedSearch);
        }
        let others = self.search.iter().flat_map(|search| &search.others);
        let of_others = others.map(|other| {
            Self { events: other.events.clone(), held_out: other.held_out.clone(), search: None, ..self.clone() }
                .divergences()
        });
        let mut worst = selection::of_events(&with(self.release()?, &self.checked()?))?;
        if let Some(held_out) = self.of_held_out() {
            worst = selection::larger(&worst, &held_out.divergences()?);
        }
        for other in of_others {
            worst = selection::larger(&worst, &other?);
        }
        Ok(self.search.as_ref().map_or(worst, |search| search.candidates.best(&worst)))
    }

    /// ε at `delta` of everything in `records`, one after the other, by Rényi divergences: for records of which one is of a search.
    ///
    /// # Errors
    ///
    /// As [`Recorded::divergences`], or no finite ε holds.
    pub fn epsilon_of_all(records: &[Self], delta: f64) -> Result<EpsilonBound, AccountingError> {
        check_delta(delta)?;
        let mut all = selection::NOTHING;
        for record in records {
            all = selection::sum(&all, &record.divergences()?);
        }
        let (epsilon, order) = selection::epsilon(&all, delta);
        if epsilon.is_finite() {
            return Ok(EpsilonBound { epsilon, order: Some(order) });
        }
        let least = records.iter().map(Self::smallest_multiplier).fold(f64::INFINITY, f64::min);
        let steps = records.iter().fold(0u64, |sum, record| sum.saturating_add(record.steps()));
        Err(AccountingError::NothingHolds { multiplier: least, steps })
    }

    /// Returns true if draws by coins have blocks of correlated noise, which have no price of a replaced sample.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        self.correlation.is_some() && self.sampler.has_coins()
    }

    /// The price at what truncation leaves of δ.
    fn priced(
        &self,
        delta: f64,
        price: impl Fn(&Self, &[(SampledGaussian, u64)], f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<EpsilonBound, AccountingError> {
        let held_out = self.of_held_out().map(|held_out| held_out.priced_alone(delta, &price)).transpose()?;
        let training = self.priced_alone(delta, price)?;
        Ok(held_out.filter(|held_out| held_out.epsilon > training.epsilon).unwrap_or(training))
    }

    /// The price of the draws and of the release before them.
    fn priced_alone(
        &self,
        delta: f64,
        price: impl Fn(&Self, &[(SampledGaussian, u64)], f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<EpsilonBound, AccountingError> {
        if self.run == Some(RunKind::NotPrivate) {
            return Err(AccountingError::NotPrivate);
        }
        check_delta(delta)?;
        let events = self.checked()?;
        let finite = |delta| {
            let priced = price(self, &events, delta)?;
            if priced.epsilon.is_finite() {
                return Ok(priced);
            }
            Err(AccountingError::NothingHolds { multiplier: self.smallest_multiplier(), steps: self.steps() })
        };
        match self.truncation {
            None => finite(delta),
            Some(truncation) => Ok(truncation.price(delta, truncation.any(&events), finite)?.price),
        }
    }

    fn uncut(
        &self,
        accountant: Accountant,
        events: &[(SampledGaussian, u64)],
        delta: f64,
    ) -> Result<EpsilonBound, AccountingError> {
        // A schedule's draws differ, and Rényi's accountant prices them by a plan's few knots.
        let release = self.release()?;
        let all = with(release, events);
        let alike = events.iter().all(|(event, _)| event.rate() == events[0].0.rate());
        let plan = || {
            let each =
                events.iter().flat_map(|(event, times)| std::iter::repeat_n(event.multiplier(), *times as usize));
            let plan = |rate| Plan::new(rate, each, None).map(|plan| plan.with_release(release));
            events.first().filter(|_| alike && self.events() <= SCHEDULE).map(|(event, _)| plan(event.rate()))
        };
        match accountant {
            Accountant::Pld => smaller::price(&all, || plan()?.ok().map(|plan| plan.knots()), delta),
            Accountant::Rdp => match plan() {
                Some(plan) => plan?.price(accountant, delta),
                None => {
                    let found = least_epsilon(&all, delta).map_err(|_| AccountingError::Delta(delta))?;
                    Ok(EpsilonBound { epsilon: found.epsilon, order: Some(found.order) })
                }
            },
        }
    }

    /// δ at `epsilon`, from the events alone: an upper bound, at most a thousandth above the least that this accountant certifies, at least
    /// 1e-15, and 1 if no smaller one is found.
    ///
    /// # Errors
    ///
    /// ε is not a finite number of at least 0, or as [`Recorded::epsilon`].
    pub fn delta(&self, accountant: Accountant, epsilon: f64) -> Result<f64, AccountingError> {
        self.delta_by(epsilon, |delta| self.epsilon(accountant, delta))
    }

    /// δ at `epsilon` by a price at each δ.
    pub(super) fn delta_by(
        &self,
        epsilon: f64,
        price: impl Fn(f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<f64, AccountingError> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(AccountingError::EpsilonOfDelta(epsilon));
        }
        smallest_delta(epsilon, |delta| match price(delta) {
            Ok(bound) => Ok(bound.epsilon),
            Err(
                AccountingError::NothingHolds { .. }
                | AccountingError::Truncation { .. }
                | AccountingError::Group { .. },
            ) => Ok(f64::INFINITY),
            Err(error) => Err(error),
        })
    }
}
