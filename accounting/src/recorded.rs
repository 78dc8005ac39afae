//! What a run's folder records for an auditor: the events that were drawn, from which ε follows and nothing else is needed.

use super::{Accountant, AccountingError, Plan, Price, check_delta, pld};
use damper_core::accounting::event::{Event, Rate};
use damper_core::accounting::renyi::least_epsilon;
use serde::{Deserialize, Serialize};

/// So many draws are listed one by one.
const SCHEDULE: u64 = 1 << 24;

/// Draws that were all alike.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEvent {
    /// `k` of the sampling rate `k/2^53`.
    pub sampling_rate_numerator: u64,
    /// σ over the sensitivity, all releases of the draw together.
    pub noise_multiplier: f64,
    /// How many draws.
    pub times: u64,
}

/// The events of a run, in the order of its steps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The δ of the run's claim.
    pub delta: f64,
    /// The accountant of the run's claim.
    pub accountant: Accountant,
    /// Every draw from which something was released.
    pub events: Vec<RecordedEvent>,
}

impl Recorded {
    /// What was drawn.
    #[must_use]
    pub fn new(accountant: Accountant, delta: f64, events: &[(Event, u64)]) -> Self {
        let one = |(event, times): &(Event, u64)| RecordedEvent {
            sampling_rate_numerator: event.rate().numerator(),
            noise_multiplier: event.multiplier(),
            times: *times,
        };
        Self { delta, accountant, events: events.iter().map(one).collect() }
    }

    /// The number of draws.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.events.iter().fold(0, |sum, event| sum.saturating_add(event.times))
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

    /// ε at `delta`, from the events alone.
    ///
    /// # Errors
    ///
    /// A rate above 1 or a multiplier that is not above 0, as a damaged file may have; no event; or no finite ε.
    pub fn epsilon(&self, accountant: Accountant, delta: f64) -> Result<Price, AccountingError> {
        check_delta(delta)?;
        let event = |event: &RecordedEvent| {
            let rate = Rate::from_numerator(event.sampling_rate_numerator).map_err(|_| {
                AccountingError::SamplingRate(event.sampling_rate_numerator as f64 / Rate::DENOMINATOR as f64)
            })?;
            let found = Event::new(rate, event.noise_multiplier)
                .map_err(|_| AccountingError::NoiseMultiplier(event.noise_multiplier))?;
            Ok((found, event.times))
        };
        let events = self.events.iter().map(event).collect::<Result<Vec<_>, AccountingError>>()?;
        if self.steps() == 0 {
            return Err(AccountingError::Steps);
        }
        let alike = events.iter().all(|(event, _)| event.rate() == events[0].0.rate());
        let priced = match accountant {
            Accountant::Pld => {
                Price { epsilon: pld::of_discrete(&events, pld::Neighbours::AddOrRemove, delta)?, order: None }
            }
            // A schedule's draws differ, and are priced by a plan's few knots.
            Accountant::Rdp if alike && self.steps() <= SCHEDULE => {
                let each =
                    events.iter().flat_map(|(event, times)| std::iter::repeat_n(event.multiplier(), *times as usize));
                Plan::new(events[0].0.rate(), each, None)?.price(accountant, delta)?
            }
            Accountant::Rdp => {
                let found = least_epsilon(&events, delta).map_err(|_| AccountingError::Delta(delta))?;
                Price { epsilon: found.epsilon, order: Some(found.order) }
            }
        };
        if priced.epsilon.is_finite() {
            return Ok(priced);
        }
        Err(AccountingError::NothingHolds { multiplier: self.smallest_multiplier(), steps: self.steps() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_events_cost_what_the_plan_did_after_a_way_through_a_file() {
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
                assert!((ours.epsilon / plan.epsilon - 1.0).abs() < 1e-3, "{ours:?} {plan:?}");
            }
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        let event = RecordedEvent { sampling_rate_numerator: 1 << 50, noise_multiplier: 1.0, times: 5 };
        let epsilon = |event| {
            Recorded { delta: 1e-5, accountant: Accountant::Pld, events: vec![event] }.epsilon(Accountant::Pld, 1e-5)
        };
        assert!(epsilon(event).is_ok());
        assert!(epsilon(RecordedEvent { times: 0, ..event }).is_err());
        assert!(epsilon(RecordedEvent { sampling_rate_numerator: u64::MAX, ..event }).is_err());
        assert!(epsilon(RecordedEvent { noise_multiplier: -1.0, ..event }).is_err());
    }
}
