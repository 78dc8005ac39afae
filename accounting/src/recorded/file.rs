//! The form of a record in files: flat, and the same in every version.

use super::kind::RunKind;
use super::run_parts::{RunParts, RunSearch};
use crate::event::Event;
use crate::{Accountant, AccountingError, CandidateCount, CorrelatedNoise, Sampler, Truncation};
use damper_core::accounting::event::Rate;
use serde::{Deserialize, Serialize};

/// A record in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) delta: f64,
    pub(super) accountant: Accountant,
    /// None in a file of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunKind>,
    #[serde(default, skip_serializing_if = "Sampler::is_poisson")]
    pub(super) sampler: Sampler,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation: Option<CorrelatedNoise>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search: Option<Search>,
    events: Vec<Draws>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held_out: Vec<Draws>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    normalize: Option<Draws>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    non_finite: Option<Draws>,
}

/// Equal draws.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draws {
    /// `k` of the sampling rate `k/2^53`.
    sampling_rate_numerator: u64,
    /// σ over the sensitivity, with all releases of the draw combined.
    noise_multiplier: f64,
    /// Number of draws.
    times: u64,
}

/// A search whose candidates have the events of the record, or other events.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    candidates: CandidateCount,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Candidate>,
}

/// Events of one candidate.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate {
    events: Vec<Draws>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held_out: Vec<Draws>,
}

impl Draws {
    /// Draws of an event in the form of [`RunParts`].
    fn of((event, times): &(Event, u64)) -> Self {
        let (rate, noise_multiplier) = event.rate_and_multiplier().unwrap_or((Rate::ZERO, 0.0));
        Self { sampling_rate_numerator: rate.numerator(), noise_multiplier, times: *times }
    }

    fn list(events: &[(Event, u64)]) -> Vec<Self> {
        events.iter().map(Self::of).collect()
    }

    fn statistic(multiplier: f64) -> Self {
        Self::of(&(Event::Gaussian { multiplier }, 1))
    }

    fn rate(self) -> Result<Rate, AccountingError> {
        let asked = self.sampling_rate_numerator as f64 / Rate::DENOMINATOR as f64;
        Rate::from_numerator(self.sampling_rate_numerator).map_err(|_| AccountingError::SamplingRate(asked))
    }

    /// The events of a list, in its order.
    fn events(list: &[Self], has_coins: bool) -> Result<Vec<(Event, u64)>, AccountingError> {
        let event = |draws: &Self| Ok((Event::draw(has_coins, draws.rate()?, draws.noise_multiplier), draws.times));
        list.iter().map(event).collect()
    }

    /// The multiplier of a release from all samples.
    fn multiplier(self) -> Result<f64, AccountingError> {
        // A damaged record is an error, and not a record without cost.
        match (self.rate()?, self.times) {
            (Rate::ONE, 1) => Ok(self.noise_multiplier),
            (Rate::ONE, _) => Err(AccountingError::Steps),
            (rate, _) => Err(AccountingError::SamplingRate(rate.as_f64())),
        }
    }
}

impl File {
    /// The file of a record with the event of `parts`.
    pub(super) fn new(
        delta: f64,
        accountant: Accountant,
        run: Option<RunKind>,
        sampler: Sampler,
        steps: Option<u64>,
        parts: &RunParts<'_>,
    ) -> Self {
        let candidate = |[events, held_out]: &[&[(Event, u64)]; 2]| Candidate {
            events: Draws::list(events),
            held_out: Draws::list(held_out),
        };
        let search = parts.search.as_ref().map(|RunSearch { candidates, others }| Search {
            candidates: *candidates,
            others: others.iter().map(candidate).collect(),
        });
        Self {
            delta,
            accountant,
            run,
            sampler,
            steps,
            truncation: parts.truncation,
            correlation: parts.correlation.cloned(),
            search,
            events: Draws::list(parts.draws),
            held_out: Draws::list(parts.held_out),
            normalize: parts.normalize.map(Draws::statistic),
            non_finite: parts.non_finite.map(Draws::statistic),
        }
    }

    /// The event.
    pub(super) fn event(&self) -> Result<Event, AccountingError> {
        let has_coins = self.sampler.has_coins();
        let listed = |events: &[Draws], held_out: &[Draws]| {
            Ok::<_, AccountingError>([Draws::events(events, has_coins)?, Draws::events(held_out, false)?])
        };
        let [draws, held_out] = listed(&self.events, &self.held_out)?;
        let others = self.search.iter().flat_map(|search| &search.others);
        let others: Vec<_> = others.map(|other| listed(&other.events, &other.held_out)).collect::<Result<_, _>>()?;
        let parts = RunParts {
            normalize: self.normalize.map(Draws::multiplier).transpose()?,
            non_finite: self.non_finite.map(Draws::multiplier).transpose()?,
            truncation: self.truncation,
            correlation: self.correlation.as_ref(),
            draws: &draws,
            held_out: &held_out,
            search: self.search.as_ref().map(|search| RunSearch {
                candidates: search.candidates,
                others: others.iter().map(|[draws, held_out]| [&draws[..], &held_out[..]]).collect(),
            }),
        };
        Ok(parts.event())
    }
}
