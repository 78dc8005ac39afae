//! The record of a run for an auditor: the events, from which ε follows without anything else.

use super::delta::check_delta;
use super::plan::with;
use super::pld::Neighbours;
use super::recorded_event::RecordedEvent;
use super::selection::{self, Curve};
use super::{Accountant, AccountingError, Correlated, EpsilonBound, Plan, Sampler, Search, Truncation, pld, smaller};
use damper_core::accounting::event::{Event, Rate};
use damper_core::accounting::renyi::least_epsilon;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most draws that are listed one by one.
const SCHEDULE: u64 = 1 << 24;
/// Most different draws that are priced where rates change (some seconds; at one rate, 100,000 draws take one second).
const CHANGING: usize = 1 << 14;
/// The smallest δ that is looked for, and by how much it may lie above the least that would do.
const LEAST_DELTA: f64 = 1e-15;
const DELTA_RATIO: f64 = 1e-3;

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
}

impl Recorded {
    /// The Poisson draws, without truncation.
    #[must_use]
    pub fn new(accountant: Accountant, delta: f64, events: &[(Event, u64)]) -> Self {
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
            ..*self
        };
        (!self.held_out.is_empty()).then_some(alone)
    }

    /// The draws and the release before them: what a training sample is protected from.
    #[must_use]
    pub fn of_training(&self) -> Self {
        Self { held_out: Vec::new(), ..self.clone() }
    }

    /// The first `events` events, with the release before them and all releases from held-out samples.
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
    fn checked(&self) -> Result<Vec<(Event, u64)>, AccountingError> {
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
        if events.is_empty() && self.normalize.is_none() {
            return Err(AccountingError::Steps);
        }
        let alike = events.iter().all(|(event, _)| event.rate() == events[0].0.rate());
        if alike || events.len() <= CHANGING { Ok(events) } else { Err(AccountingError::TooMany(events.len())) }
    }

    /// The release before the draws, if there was one.
    fn release(&self) -> Result<Option<Event>, AccountingError> {
        let Some(recorded) = &self.normalize else { return Ok(None) };
        let (event, times) = self.event(recorded)?;
        // A damaged record is no free release.
        if times != 1 {
            return Err(AccountingError::Steps);
        }
        if event.rate() == Rate::ONE {
            Ok(Some(event))
        } else {
            Err(AccountingError::SamplingRate(event.rate().as_f64()))
        }
    }

    fn event(&self, event: &RecordedEvent) -> Result<(Event, u64), AccountingError> {
        let asked = event.sampling_rate_numerator as f64 / Rate::DENOMINATOR as f64;
        let rate = match Rate::from_numerator(event.sampling_rate_numerator) {
            Ok(rate) if rate != Rate::ZERO && (self.sampler.has_coins() || rate == Rate::ONE) => rate,
            _ => return Err(AccountingError::SamplingRate(asked)),
        };
        let found = Event::new(rate, event.noise_multiplier)
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
        price: impl Fn(&Self, &[(Event, u64)], f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<EpsilonBound, AccountingError> {
        let held_out = self.of_held_out().map(|held_out| held_out.priced_alone(delta, &price)).transpose()?;
        let training = self.priced_alone(delta, price)?;
        Ok(held_out.filter(|held_out| held_out.epsilon > training.epsilon).unwrap_or(training))
    }

    /// The price of the draws and of the release before them.
    fn priced_alone(
        &self,
        delta: f64,
        price: impl Fn(&Self, &[(Event, u64)], f64) -> Result<EpsilonBound, AccountingError>,
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
        events: &[(Event, u64)],
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
    /// 1e-15, and 1 where no smaller one is found.
    ///
    /// # Errors
    ///
    /// ε is not a finite number of at least 0, or as [`Recorded::epsilon`].
    pub fn delta(&self, accountant: Accountant, epsilon: f64) -> Result<f64, AccountingError> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(AccountingError::Epsilon(epsilon));
        }
        let at = |ln_delta: f64| match self.epsilon(accountant, libm::exp(ln_delta)) {
            Ok(priced) => Ok(priced.epsilon - epsilon),
            Err(AccountingError::NothingHolds { .. } | AccountingError::Truncation { .. }) => Ok(f64::INFINITY),
            Err(error) => Err(error),
        };
        let least = libm::log(LEAST_DELTA);
        // low: too small a δ; high: one that holds.
        let (mut low, mut high) = ((least, at(least)?), (libm::log(0.99), 0.0));
        if low.1 <= 0.0 {
            return Ok(LEAST_DELTA);
        }
        high.1 = at(high.0)?;
        if high.1 > 0.0 {
            return Ok(1.0);
        }
        let mut weights = (1.0, 1.0);
        for _ in 0..100 {
            if high.0 - low.0 <= DELTA_RATIO {
                break;
            }
            let (above, below) = (low.1 * weights.0, -high.1 * weights.1);
            let share = above / (above + below);
            // Not so near an end that only the other one would move.
            let margin = (0.25 * DELTA_RATIO / (high.0 - low.0)).min(0.5);
            let share = if share.is_finite() { share.clamp(margin, 1.0 - margin) } else { 0.5 };
            let middle = low.0 + share * (high.0 - low.0);
            let value = at(middle)?;
            if value <= 0.0 {
                high = (middle, value);
                weights = (weights.0 / 2.0, 1.0);
            } else {
                low = (middle, value);
                weights = (1.0, weights.1 / 2.0);
            }
        }
        Ok(libm::exp(high.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Recorded events cost the same as their plan after a round trip through JSON.
    #[test]
    fn cost_survives_serialization() {
        let rate = Rate::of(256, 50_000).unwrap();
        for (multipliers, joint) in
            [(vec![1.1; 300], None), ((0..40).map(|t| 0.9 + 0.01 * f64::from(t)).collect(), Some(5.0))]
        {
            let plan = Plan::new(rate, multipliers, joint).unwrap();
            for accountant in [Accountant::Pld, Accountant::Rdp] {
                let recorded = Recorded::new(accountant, 1e-5, plan.events());
                let file = serde_json::to_string(&recorded).unwrap();
                let read: Recorded = serde_json::from_str(&file).unwrap();
                assert_eq!(read, recorded);
                let (ours, plan) = (read.epsilon(accountant, 1e-5).unwrap(), plan.epsilon(accountant, 1e-5).unwrap());
                assert_eq!(ours, plan);
            }
        }
    }

    #[test]
    fn changing_rates_are_priced_each_as_it_is() {
        let event = |of: u64, sigma: f64| Event::new(Rate::of(1, of).unwrap(), sigma).unwrap();
        let events = [(event(100, 1.0), 300), (event(10, 2.0), 200)];
        let recorded = Recorded::new(Accountant::Rdp, 1e-5, &events);
        let (found, exact) = (recorded.epsilon(Accountant::Rdp, 1e-5).unwrap(), least_epsilon(&events, 1e-5).unwrap());
        assert_eq!((found.epsilon, found.order), (exact.epsilon, Some(exact.order)));
        assert_eq!((recorded.largest_rate(), recorded.smallest_multiplier()), (events[1].0.rate().as_f64(), 1.0));
        assert_eq!(
            (recorded.events(), recorded.steps(), Recorded { events: vec![], ..recorded.clone() }.largest_rate()),
            (500, 500, 0.0)
        );
        // In any order, and in parts.
        let parts = [(event(10, 2.0), 150), (event(100, 1.0), 300), (event(10, 2.0), 50)];
        assert_eq!(Recorded::new(Accountant::Rdp, 1e-5, &parts).epsilon(Accountant::Rdp, 1e-5), Ok(found));
    }

    /// A schedule is priced by its plan's knots, however long; a record of more draws than are listed, each by itself.
    #[test]
    fn long_records_are_priced_without_a_plan() {
        let rate = Rate::of(1, 1000).unwrap();
        let record = |times: u64| {
            let events: Vec<_> =
                (0..40).map(|t| (Event::new(rate, 5.0 + 0.002 * f64::from(t)).unwrap(), times)).collect();
            let found = Recorded::new(Accountant::Rdp, 1e-5, &events).epsilon(Accountant::Rdp, 1e-5).unwrap();
            (found.epsilon, least_epsilon(&events, 1e-5).unwrap().epsilon)
        };
        let (found, each) = record(100);
        assert!(found > each && found < 1.001 * each, "{found} {each}");
        let (found, each) = record(SCHEDULE / 40 + 1);
        assert_eq!(found, each);
    }

    #[test]
    fn what_a_record_says_is_in_its_file() {
        let (private, simulation) = (RunKind::Private, RunKind::Simulation);
        assert_eq!((private.to_string(), simulation.to_string()), ("private".into(), "simulation".into()));
        assert_eq!(RunKind::NotPrivate.to_string(), "not private");
        let file = serde_json::to_value(Recorded { run: Some(private), ..recorded() }).unwrap();
        assert_eq!((file.get("sampler"), &file["run"]), (None, &serde_json::json!("private")));
        let coins = serde_json::from_value::<Recorded>(file).unwrap();
        assert_eq!((coins.sampler, coins.run), (Sampler::Poisson, Some(private)));
    }

    /// Whatever events its file lists.
    #[test]
    fn no_epsilon_of_a_run_not_private() {
        let event = (Event::new(Rate::of(1, 10).unwrap(), 5.0).unwrap(), 3);
        let of = |run| Recorded { run, ..Recorded::new(Accountant::Pld, 1e-5, &[event]) };
        assert!(of(Some(RunKind::Private)).epsilon(Accountant::Pld, 1e-5).is_ok());
        let not_private = of(Some(RunKind::NotPrivate));
        for found in [
            not_private.epsilon(Accountant::Pld, 1e-5),
            not_private.epsilon(Accountant::Rdp, 1e-5),
            not_private.epsilon_of_replaced(1e-5),
            not_private.first(1).epsilon(Accountant::Pld, 1e-5),
            Recorded { events: vec![], ..not_private.clone() }.epsilon(Accountant::Pld, 1e-5),
        ] {
            assert_eq!(found, Err(AccountingError::NotPrivate));
        }
        assert_eq!(not_private.delta(Accountant::Pld, 1.0), Err(AccountingError::NotPrivate));
        let file = serde_json::to_value(&not_private).unwrap();
        assert_eq!(file["run"], "not private");
        assert_eq!(serde_json::from_value::<Recorded>(file).unwrap(), not_private);
    }

    #[test]
    fn first_events_are_those_in_order() {
        let event =
            |sigma: f64, times| RecordedEvent { noise_multiplier: sigma, times, sampling_rate_numerator: 1 << 50 };
        let all = Recorded { events: vec![event(1.0, 3), event(2.0, 5), event(3.0, 2)], ..recorded() };
        for (events, exact) in [
            (0, vec![]),
            (2, vec![event(1.0, 2)]),
            (3, vec![event(1.0, 3)]),
            (7, vec![event(1.0, 3), event(2.0, 4)]),
            (99, all.events.clone()),
        ] {
            assert_eq!(all.first(events).events, exact);
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        let event = RecordedEvent { sampling_rate_numerator: 1 << 50, noise_multiplier: 1.0, times: 5 };
        let epsilon = |event| {
            Recorded { events: vec![event], ..Recorded::new(Accountant::Pld, 1e-5, &[]) }.epsilon(Accountant::Pld, 1e-5)
        };
        assert!(epsilon(event).is_ok());
        assert!(epsilon(RecordedEvent { times: 0, ..event }).is_err());
        assert!(epsilon(RecordedEvent { sampling_rate_numerator: u64::MAX, ..event }).is_err());
        assert!(epsilon(RecordedEvent { noise_multiplier: -1.0, ..event }).is_err());
        let above = RecordedEvent { sampling_rate_numerator: 3 * Rate::DENOMINATOR / 2, ..event };
        assert_eq!(epsilon(above), Err(AccountingError::SamplingRate(1.5)));
        let changing = |count: u64| {
            let one = |k: u64| RecordedEvent { sampling_rate_numerator: (1 << 45) + k, ..event };
            Recorded { events: (0..count).map(one).collect(), ..Recorded::new(Accountant::Pld, 1e-5, &[]) }
        };
        assert!(changing(1000).epsilon(Accountant::Pld, 1e-5).is_ok());
        let many = changing(CHANGING as u64 + 1).epsilon(Accountant::Pld, 1e-5);
        assert_eq!(many, Err(AccountingError::TooMany(CHANGING + 1)));
    }

    fn recorded() -> Recorded {
        let event = Event::new(Rate::of(128, 1437).unwrap(), 1.6).unwrap();
        Recorded::new(Accountant::Pld, 1e-5, &[(event, 113)])
    }

    // The delta at an epsilon and the epsilon at a delta are inverse to each other, within 2 %.
    #[test]
    fn delta_and_epsilon_are_inverse() {
        let ramp: Vec<f64> = (0..30).map(|t| 0.9 + 0.01 * f64::from(t)).collect();
        let schedule = Plan::new(Rate::of(256, 50_000).unwrap(), ramp, None).unwrap();
        for recorded in [recorded(), Recorded::new(Accountant::Pld, 1e-5, schedule.events())] {
            for accountant in [Accountant::Pld, Accountant::Rdp] {
                for delta in [1e-3, 1e-5, 1e-9] {
                    let epsilon = recorded.epsilon(accountant, delta).unwrap().epsilon;
                    let found = recorded.delta(accountant, epsilon).unwrap();
                    assert!((found / delta - 1.0).abs() < 0.02, "{accountant} {delta:e}: {found:e}");
                    assert!(recorded.epsilon(accountant, found).unwrap().epsilon <= epsilon);
                }
            }
        }
        assert_eq!(recorded().delta(Accountant::Pld, 1e3).unwrap(), LEAST_DELTA);
        assert!(recorded().delta(Accountant::Pld, 0.0).unwrap() > 0.2);
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(recorded().delta(Accountant::Pld, bad).is_err());
        }
    }

    /// Halving finds the least δ at which ε is small enough.
    #[test]
    fn delta_is_the_least_within_a_thousandth() {
        let steep = Recorded::new(Accountant::Rdp, 1e-5, &[(Event::new(Rate::ONE, 40.0).unwrap(), 9)]);
        for (recorded, epsilons) in [(recorded(), [0.5, 1.2, 4.0]), (steep, [0.02, 0.2, 0.4])] {
            for epsilon in epsilons {
                let holds = |ln: f64| recorded.epsilon(Accountant::Rdp, libm::exp(ln)).unwrap().epsilon <= epsilon;
                let (mut low, mut high) = (libm::log(LEAST_DELTA), 0.99f64.ln());
                for _ in 0..40 {
                    let middle = (low + high) / 2.0;
                    if holds(middle) { high = middle } else { low = middle }
                }
                let found = recorded.delta(Accountant::Rdp, epsilon).unwrap();
                let above = libm::log(found) - high;
                assert!(above > -1e-9 && above < 1.001 * DELTA_RATIO, "{epsilon}: {found:e}, {above:e} above");
            }
        }
    }

    #[test]
    fn epsilon_is_of_the_part_that_costs_more() {
        let training = recorded();
        let release = |multiplier, times| RecordedEvent::new(&(Event::new(Rate::ONE, multiplier).unwrap(), times));
        let epsilon = |recorded: &Recorded| recorded.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        for (multiplier, held_out_is_more) in [(0.8, true), (50.0, false)] {
            let both = Recorded { held_out: vec![release(multiplier, 3)], ..training.clone() };
            let alone = both.of_held_out().unwrap();
            assert_eq!(alone.events, both.held_out);
            let (a, b) = (epsilon(&training), epsilon(&alone));
            assert_eq!((epsilon(&both), b > a), (a.max(b), held_out_is_more));
            assert_eq!(both.of_training(), training);
            let (a, b) = [&both, &alone].map(|one| one.epsilon_of_replaced(1e-5).unwrap().epsilon).into();
            assert!(a >= b);
            let read: Recorded = serde_json::from_str(&serde_json::to_string(&both).unwrap()).unwrap();
            assert_eq!(read, both);
            // A damaged release is no free one.
            let broken = Recorded { held_out: vec![release(multiplier, 0)], ..training.clone() };
            assert!(broken.epsilon(Accountant::Pld, 1e-5).is_err());
        }
        assert!(training.of_held_out().is_none());
    }

    // A release before the draws costs what its plan costs, with either accountant, and counts where no draw came.
    #[test]
    fn release_is_composed_with_draws() {
        let release = Event::new(Rate::ONE, 6.0).unwrap();
        let ramp: Vec<f64> = (0..200).map(|t| 0.9 + 0.003 * f64::from(t)).collect();
        for multipliers in [vec![1.1; 300], ramp] {
            let plan =
                Plan::new(Rate::of(256, 50_000).unwrap(), multipliers, None).unwrap().with_release(Some(release));
            for accountant in [Accountant::Pld, Accountant::Rdp] {
                let alone = Recorded::new(accountant, 1e-5, plan.events());
                let both = Recorded { normalize: Some(RecordedEvent::new(&(release, 1))), ..alone.clone() };
                let read: Recorded = serde_json::from_str(&serde_json::to_string(&both).unwrap()).unwrap();
                let found = read.epsilon(accountant, 1e-5).unwrap();
                assert_eq!((&read, found), (&both, plan.epsilon(accountant, 1e-5).unwrap()));
                assert!(found.epsilon > alone.epsilon(accountant, 1e-5).unwrap().epsilon);
                // One event more, priced one by one: the slow reference.
                let listed = Recorded { events: [both.normalize.as_slice(), &alone.events].concat(), ..alone.clone() };
                let exact = listed.epsilon(accountant, 1e-5).unwrap().epsilon;
                assert!((found.epsilon / exact - 1.0).abs() < 1e-3, "{} {exact}", found.epsilon);
                let first = both.first(0).epsilon(accountant, 1e-5).unwrap();
                assert_eq!(first, Recorded::new(accountant, 1e-5, &[(release, 1)]).epsilon(accountant, 1e-5).unwrap());
                let mut spent = plan.spent(accountant, 1e-5).unwrap();
                assert!((spent.least_epsilon() / first.epsilon - 1.0).abs() < 1e-9);
                plan.events().iter().for_each(|(event, times)| (0..*times).for_each(|_| spent.count(event)));
                assert_eq!(spent.least_epsilon(), found.epsilon);
            }
        }
        let broken = |event: RecordedEvent| Recorded { normalize: Some(event), ..recorded() };
        let event = RecordedEvent::new(&(release, 1));
        assert!(
            broken(event).epsilon(Accountant::Pld, 1e-5).is_ok() && broken(event).epsilon_of_replaced(1e-5).is_ok()
        );
        let damaged = [
            RecordedEvent { times: 0, ..event },
            RecordedEvent { sampling_rate_numerator: 1 << 50, ..event },
            RecordedEvent { noise_multiplier: f64::NAN, ..event },
        ];
        assert!(damaged.iter().all(|event| broken(*event).epsilon(Accountant::Pld, 1e-5).is_err()));
    }

    // The epsilon of the first events grows up to the epsilon of all events.
    #[test]
    fn prefix_epsilon_grows_to_total() {
        let whole = recorded();
        let each: Vec<f64> = [1, 20, 80, 113, 500]
            .map(|events| whole.first(events).epsilon(Accountant::Pld, 1e-5).unwrap().epsilon)
            .into();
        assert!(each.windows(2).all(|pair| pair[0] <= pair[1]), "{each:?}");
        assert_eq!(each[3], whole.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon);
        assert_eq!(each[4], each[3]);
        assert_eq!(whole.first(0).epsilon(Accountant::Pld, 1e-5), Err(AccountingError::Steps));
    }

    // Replacing a sample costs at least 1.5 times as much as removing it.
    #[test]
    fn replacement_costs_more_than_removal() {
        let (out, replaced) = (recorded().epsilon(Accountant::Pld, 1e-5), recorded().epsilon_of_replaced(1e-5));
        assert!(replaced.unwrap().epsilon > 1.5 * out.unwrap().epsilon);
    }

    // One epoch of shuffled batches is one event, without amplification by sampling.
    #[test]
    fn shuffled_epoch_is_one_unsampled_event() {
        let event = Event::new(Rate::ONE, 8.0).unwrap();
        let shuffled = Recorded {
            sampler: Sampler::Shuffled,
            steps: Some(113),
            ..Recorded::new(Accountant::Pld, 1e-5, &[(event, 10)])
        };
        assert_eq!((shuffled.steps(), shuffled.events()), (113, 10));
        let epochs = Plan::constant(Rate::ONE, 8.0, None, 10).unwrap().epsilon(Accountant::Pld, 1e-5).unwrap();
        assert_eq!(shuffled.epsilon(Accountant::Pld, 1e-5).unwrap(), epochs);
        let file = serde_json::to_string(&shuffled).unwrap();
        assert!(file.contains("\"sampler\":\"shuffled\",\"steps\":113"), "{file}");
        assert_eq!(serde_json::from_str::<Recorded>(&file).unwrap(), shuffled);

        let amplified = Recorded { sampler: Sampler::Shuffled, ..recorded() };
        assert!(matches!(amplified.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::SamplingRate(_))));
    }

    // Truncated batches add to the cost, and the truncation survives a round trip through JSON.
    #[test]
    fn truncation_is_charged_and_serialized() {
        let cut = |most| Recorded { truncation: Some(Truncation { samples: 1437, most }), ..recorded() };
        let epsilon = |recorded: Recorded| recorded.epsilon(Accountant::Pld, 1e-5).map(|priced| priced.epsilon);
        let plain = epsilon(recorded()).unwrap();
        assert!(epsilon(cut(200)).unwrap() > plain);
        assert!(epsilon(cut(1437)).unwrap() == plain);
        assert!(epsilon(cut(128)).is_err());
        let file = serde_json::to_string(&cut(200)).unwrap();
        assert_eq!(serde_json::from_str::<Recorded>(&file).unwrap(), cut(200));
    }
}
