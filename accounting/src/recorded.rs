//! The record of a run for an auditor. ε follows from its event alone.

mod file;
mod kind;
mod run_parts;
#[cfg(test)]
mod tests;

use super::event::Event;
use super::pld::Neighbours;
use super::{Accountant, AccountingError, EpsilonBound, Sampler};
use damper_core::accounting::event::{Rate, SampledGaussian};
use file::File;
pub use kind::RunKind;
pub use run_parts::{RunParts, RunSearch};
use serde::{Deserialize, Serialize, Serializer};
use std::num::NonZeroU32;

/// A run and its event. As JSON it is the content of `events.json`.
///
/// ```
/// use damper_accounting::{Accountant, Recorded, sampling_rate};
/// use damper_core::accounting::SampledGaussian;
///
/// let steps = [(SampledGaussian::new(sampling_rate(0.01)?, 1.1).unwrap(), 1000)];
/// let recorded = Recorded::new(Accountant::Pld, 1e-5, &steps);
/// // An auditor reads `events.json` and computes ε again.
/// let json = serde_json::to_string(&recorded).unwrap();
/// let read: Recorded = serde_json::from_str(&json).unwrap();
/// assert_eq!(read, recorded);
/// assert!((1.51..1.52).contains(&read.epsilon(Accountant::Pld, 1e-5)?.epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "File")]
pub struct Recorded {
    /// The δ of the run's claim.
    pub delta: f64,
    /// The accountant of the run's claim.
    pub accountant: Accountant,
    /// The kind of the run. None in a record of an earlier version.
    pub run: Option<RunKind>,
    /// The sampler.
    pub sampler: Sampler,
    /// Number of steps that released something, if an event is an epoch of steps.
    pub steps: Option<u64>,
    /// The event, always in the form of [`RunParts`].
    event: Event,
}

impl Serialize for Recorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { delta, accountant, run, sampler, steps, .. } = *self;
        File::new(delta, accountant, run, sampler, steps, &self.parts()).serialize(serializer)
    }
}

impl TryFrom<File> for Recorded {
    type Error = AccountingError;

    fn try_from(file: File) -> Result<Self, AccountingError> {
        let event = file.event()?;
        let File { delta, accountant, run, sampler, steps, .. } = file;
        Ok(Self { delta, accountant, run, sampler, steps, event })
    }
}

impl Recorded {
    /// The record of a run of these Poisson draws.
    #[must_use]
    pub fn new(accountant: Accountant, delta: f64, events: &[(SampledGaussian, u64)]) -> Self {
        let event = Event::Compose(Event::draws(Sampler::Poisson, events));
        Self { delta, accountant, run: None, sampler: Sampler::Poisson, steps: None, event }
    }

    /// This record with the event of `parts`.
    #[must_use]
    pub fn with(&self, parts: &RunParts<'_>) -> Self {
        Self { event: parts.event(), ..*self }
    }

    /// This record, for a run with `steps` steps by `sampler`.
    #[must_use]
    pub fn with_sampler(self, sampler: Sampler, steps: u64) -> Self {
        Self { sampler, steps: (!sampler.has_event_each_step()).then_some(steps), ..self }
    }

    /// This record, for a run of this kind.
    #[must_use]
    pub fn with_kind(self, run: RunKind) -> Self {
        Self { run: Some(run), ..self }
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The parts of the event.
    ///
    /// ```
    /// use damper_accounting::{Accountant, Event, Recorded, RunKind, RunParts, Sampler, pld::Neighbours, sampling_rate};
    /// use damper_core::accounting::{Rate, SampledGaussian};
    /// use std::num::NonZeroU32;
    ///
    /// let rate = sampling_rate(0.01)?;
    /// let step = SampledGaussian::new(rate, 1.1).unwrap();
    /// let held_out = Event::releases(&[(SampledGaussian::new(Rate::ONE, 50.0).unwrap(), 5)]);
    /// let run = Recorded::new(Accountant::Pld, 1e-5, &[(step, 1000)]).with_kind(RunKind::Private);
    /// let run = run.with(&RunParts { held_out: &held_out, ..run.parts() });
    /// assert!(run.checked().is_ok());
    /// assert_eq!((run.events(), run.steps(), run.releases(), run.event_name()), (1000, 1000, 1005, "a draw"));
    /// assert_eq!((run.smallest_multiplier(), run.largest_rate()), (1.1, rate));
    /// assert_eq!((run.of_training().releases(), run.of_held_out().map(|run| run.events())), (1000, Some(5)));
    /// assert!(matches!(run.event(), Event::Disjoint(sets) if sets.len() == 2));
    ///
    /// // The first 100 steps cost less, and a replaced sample or a group costs more.
    /// let epsilon = run.epsilon(Accountant::Pld, 1e-5)?.epsilon;
    /// assert!(run.first(100, 0).epsilon(Accountant::Pld, 1e-5)?.epsilon < epsilon);
    /// assert!(run.epsilon_of_replaced(1e-5)?.epsilon > epsilon);
    /// let (two, neighbours) = (NonZeroU32::new(2).unwrap(), Neighbours::AddOrRemove);
    /// let of_two = run.epsilon_of_group(two, neighbours, 1e-5)?.epsilon;
    /// assert!(of_two > epsilon && run.delta_of_group(two, neighbours, of_two)? < 1.01e-5);
    /// assert!((0.99e-5..1.01e-5).contains(&run.delta(Accountant::Pld, epsilon)?));
    ///
    /// // Epochs of shuffled batches are one event each.
    /// let shuffled = Recorded::new(Accountant::Pld, 1e-5, &[(step, 3)]).with_sampler(Sampler::Shuffled, 300);
    /// assert_eq!((shuffled.events(), shuffled.steps()), (3, 300));
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    #[must_use]
    pub fn parts(&self) -> RunParts<'_> {
        // A record's event always has this form.
        RunParts::of(&self.event).unwrap_or_default()
    }

    /// The number of draws.
    #[must_use]
    pub fn events(&self) -> u64 {
        count(self.parts().draws)
    }

    /// The number of draws, statistics and releases from held-out samples.
    #[must_use]
    pub fn releases(&self) -> u64 {
        let parts = self.parts();
        let statistics = parts.statistics().count() as u64;
        count(parts.draws).saturating_add(count(parts.held_out)).saturating_add(statistics)
    }

    /// The number of steps: draws, or batches.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.unwrap_or_else(|| self.events())
    }

    /// The releases from held-out samples, as a separate record. None if there are none.
    #[must_use]
    pub fn of_held_out(&self) -> Option<Self> {
        let draws = self.parts().held_out;
        let alone =
            Self { sampler: Sampler::Poisson, steps: None, ..self.with(&RunParts { draws, ..RunParts::default() }) };
        (!draws.is_empty()).then_some(alone)
    }

    /// The draws and the statistics before them, which determine the privacy cost of a training sample.
    #[must_use]
    pub fn of_training(&self) -> Self {
        self.with(&RunParts { held_out: &[], ..self.parts() })
    }

    /// The first `events` draws, with the statistics before them and the first `held_out` releases from held-out
    /// samples.
    #[must_use]
    pub fn first(&self, events: u64, held_out: u64) -> Self {
        let parts = self.parts();
        let (draws, held_out) = (first_of(parts.draws, events), first_of(parts.held_out, held_out));
        self.with(&RunParts { draws: &draws, held_out: &held_out, ..parts })
    }

    /// Name of one of the draws.
    #[must_use]
    pub fn event_name(&self) -> &'static str {
        match (self.sampler, self.parts().correlation) {
            (Sampler::Poisson, _) => "a draw",
            (Sampler::CyclicPoisson, _) => "a draw of each group",
            (Sampler::MinSeparation, Some(_)) => "the whole run",
            (Sampler::Shuffled, _) | (Sampler::MinSeparation, None) => "an epoch",
        }
    }

    /// The smallest multiplier of a draw.
    #[must_use]
    pub fn smallest_multiplier(&self) -> f64 {
        self.rates_and_multipliers().map(|(_, multiplier)| multiplier).fold(f64::INFINITY, f64::min)
    }

    /// The largest rate of a draw.
    #[must_use]
    pub fn largest_rate(&self) -> Rate {
        self.rates_and_multipliers().map(|(rate, _)| rate).max().unwrap_or(Rate::ZERO)
    }

    fn rates_and_multipliers(&self) -> impl Iterator<Item = (Rate, f64)> {
        self.parts().draws.iter().filter_map(|(event, _)| event.rate_and_multiplier())
    }

    /// ε at `delta`, from the event alone.
    ///
    /// # Errors
    ///
    /// The run is not private, the sampler has no such event, or as [`Event::epsilon`].
    pub fn epsilon(&self, accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
        self.cost(|event| event.epsilon(accountant, delta))
    }

    /// ε at `delta` if neighbours replace one sample by another, as [`Event::epsilon_of_replaced`].
    ///
    /// # Errors
    ///
    /// As [`Recorded::epsilon`], or as [`Event::epsilon_of_replaced`].
    pub fn epsilon_of_replaced(&self, delta: f64) -> Result<EpsilonBound, AccountingError> {
        self.cost(|event| event.epsilon_of_replaced(delta))
    }

    /// ε at `delta` of a group of `size` samples, as [`Event::epsilon_of_group`].
    ///
    /// # Errors
    ///
    /// As [`Recorded::epsilon`], or as [`Event::epsilon_of_group`].
    pub fn epsilon_of_group(
        &self,
        size: NonZeroU32,
        neighbours: Neighbours,
        delta: f64,
    ) -> Result<EpsilonBound, AccountingError> {
        self.cost(|event| event.epsilon_of_group(size, neighbours, delta))
    }

    /// δ at `epsilon`, as [`Event::delta`].
    ///
    /// # Errors
    ///
    /// As [`Recorded::epsilon`], or as [`Event::delta`].
    pub fn delta(&self, accountant: Accountant, epsilon: f64) -> Result<f64, AccountingError> {
        self.cost(|event| event.delta(accountant, epsilon))
    }

    /// δ at `epsilon` of a group, as [`Event::delta_of_group`].
    ///
    /// # Errors
    ///
    /// As [`Recorded::epsilon`], or as [`Event::delta_of_group`].
    pub fn delta_of_group(
        &self,
        size: NonZeroU32,
        neighbours: Neighbours,
        epsilon: f64,
    ) -> Result<f64, AccountingError> {
        self.cost(|event| event.delta_of_group(size, neighbours, epsilon))
    }

    fn cost<T>(&self, of: impl Fn(&Event) -> Result<T, AccountingError>) -> Result<T, AccountingError> {
        of(self.checked()?).map_err(|error| match error {
            // Each draw is an epoch of several steps.
            AccountingError::NothingHolds { multiplier, steps } if steps == self.events() => {
                AccountingError::NothingHolds { multiplier, steps: self.steps() }
            }
            other => other,
        })
    }

    /// The event, if it has a privacy cost.
    ///
    /// # Errors
    ///
    /// The run is not private, or the sampler has no such event.
    pub fn checked(&self) -> Result<&Event, AccountingError> {
        if self.run == Some(RunKind::NotPrivate) {
            return Err(AccountingError::NotPrivate);
        }
        let RunParts { draws, correlation, search, .. } = self.parts();
        let others = search.iter().flat_map(|search| &search.others);
        let mut all = others.map(|[draws, _]| *draws).chain([draws]).flatten();
        let drawn = all.find_map(|(event, _)| match event {
            Event::Poisson { rate, .. } if !self.sampler.has_coins() => Some(*rate),
            _ => None,
        });
        match drawn {
            Some(rate) => Err(AccountingError::SamplingRate(rate.as_f64())),
            None if correlation.is_some() && !self.sampler.has_correlated_noise() => Err(AccountingError::Correlated),
            None => Ok(&self.event),
        }
    }
}

fn count(list: &[(Event, u64)]) -> u64 {
    list.iter().fold(0, |sum, (_, times)| sum.saturating_add(*times))
}

/// The first `left` entries of a list, by their number of repetitions.
fn first_of(list: &[(Event, u64)], mut left: u64) -> Vec<(Event, u64)> {
    let mut first = Vec::new();
    for (event, times) in list {
        let times = (*times).min(left);
        left -= times;
        if times > 0 {
            first.push((event.clone(), times));
        }
    }
    first
}
