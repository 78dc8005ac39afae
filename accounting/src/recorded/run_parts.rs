//! The parts of a training run's event.

use crate::event::{Event, Statistic, joint};
use crate::{AccountingError, CandidateCount, CorrelatedNoise, Truncation};
use damper_core::accounting::event::{Rate, SampledGaussian};

/// The parts of a training run's event: statistics, then draws, and releases from held-out samples.
///
/// A sample is either a training sample or a held-out sample, by public choice, so ε is the larger of the two. The
/// draws do not depend on a held-out sample. Given the outputs of the draws, the held-out releases do not depend on a
/// training sample.
///
/// ```
/// use damper_accounting::{Event, RunParts, sampling_rate};
///
/// let draws = [(Event::poisson(sampling_rate(0.01)?, Event::gaussian(1.1)?)?, 1000)];
/// let parts = RunParts { normalize: Some(20.0), draws: &draws, ..RunParts::default() };
/// assert_eq!(parts.statistics().count(), 1);
/// assert_eq!(parts.release()?, Some(Event::gaussian(20.0)?));
/// assert!(matches!(parts.event(), Event::Compose(events) if events.len() == 2));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunParts<'a> {
    /// The multiplier of the release of the features' means and deviations, if any.
    pub normalize: Option<f64>,
    /// The multiplier of the release of the number of samples without a finite gradient, if any.
    pub non_finite: Option<f64>,
    /// The largest draw, if draws are truncated.
    pub truncation: Option<Truncation>,
    /// The correlation of the noise, if it is correlated.
    pub correlation: Option<&'a CorrelatedNoise>,
    /// The draws in the order of the steps, in the form of [`Event::draws`].
    pub draws: &'a [(Event, u64)],
    /// Releases from held-out samples.
    pub held_out: &'a [(Event, u64)],
    /// The private search that releases its best candidate, if any. The run is its first candidate.
    pub search: Option<RunSearch<'a>>,
}

/// A private search among runs.
///
/// ```
/// use damper_accounting::{Event, RunParts, RunSearch, sampling_rate};
///
/// let draws = [(Event::poisson(sampling_rate(0.01)?, Event::gaussian(2.0)?)?, 100)];
/// let search = Some(RunSearch { candidates: "geometric:0.1".parse()?, others: vec![] });
/// let parts = RunParts { draws: &draws, search, ..RunParts::default() };
/// assert!(matches!(parts.event(), Event::Selection { of, .. } if of.len() == 1));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct RunSearch<'a> {
    /// The distribution of the number of candidates.
    pub candidates: CandidateCount,
    /// The draws and held-out releases of the candidates in which these differ from the first candidate.
    pub others: Vec<[&'a [(Event, u64)]; 2]>,
}

impl<'a> RunParts<'a> {
    /// The event of the run.
    #[must_use]
    pub fn event(&self) -> Event {
        let Some(RunSearch { candidates, others }) = &self.search else {
            return self.candidate(self.draws, self.held_out);
        };
        let others = others.iter().map(|[draws, held_out]| self.candidate(draws, held_out));
        let of = [self.candidate(self.draws, self.held_out)].into_iter().chain(others).collect();
        Event::Selection { candidates: *candidates, of }
    }

    fn candidate(&self, draws: &[(Event, u64)], held_out: &[(Event, u64)]) -> Event {
        let mut training = Event::Compose(draws.to_vec());
        if let Some(noise) = self.correlation {
            training = Event::Correlated { noise: Box::new(noise.clone()), event: Box::new(training) };
        }
        let statistics: Vec<Event> = self.statistics().collect();
        if !statistics.is_empty() {
            training = Event::compose(statistics.into_iter().chain([training]));
        }
        if let Some(truncation) = self.truncation {
            training = training.truncated(truncation);
        }
        if held_out.is_empty() { training } else { Event::Disjoint(vec![training, Event::Compose(held_out.to_vec())]) }
    }

    /// The releases before the draws.
    pub fn statistics(&self) -> impl Iterator<Item = Event> {
        let of = [(Statistic::FeatureMoments, self.normalize), (Statistic::NonFiniteCount, self.non_finite)];
        of.into_iter().filter_map(|(of, multiplier)| multiplier.map(|multiplier| Event::Statistic { of, multiplier }))
    }

    /// The releases before the draws as one Gaussian release, if any.
    ///
    /// # Errors
    ///
    /// A multiplier is not a finite number above 0.
    pub fn release(&self) -> Result<Option<Event>, AccountingError> {
        let one = |multiplier| Event::Gaussian { multiplier }.drawn(Rate::ONE);
        let [normalize, non_finite] = [self.normalize, self.non_finite].map(|found| found.map(one).transpose());
        let all: Option<SampledGaussian> = joint(normalize?, non_finite?)?;
        Ok(all.map(|all| Event::Gaussian { multiplier: all.multiplier() }))
    }

    /// The parts of an event that [`RunParts::event`] built. None for other events.
    pub(crate) fn of(event: &'a Event) -> Option<Self> {
        let Event::Selection { candidates, of } = event else { return Self::of_candidate(event) };
        let (first, others) = of.split_first()?;
        let each = others.iter().map(|other| Self::of_candidate(other).map(|other| [other.draws, other.held_out]));
        let search = Some(RunSearch { candidates: *candidates, others: each.collect::<Option<_>>()? });
        Some(Self { search, ..Self::of_candidate(first)? })
    }

    fn of_candidate(event: &'a Event) -> Option<Self> {
        let mut parts = Self::default();
        let mut training = event;
        if let Event::Disjoint(sets) = training {
            let [first, Event::Compose(held_out)] = &sets[..] else { return None };
            (training, parts.held_out) = (first, held_out);
        }
        if let Event::Truncated { truncation, event } = training {
            (training, parts.truncation) = (event, Some(*truncation));
        }
        if let Event::Compose(events) = training
            && let Some((Event::Statistic { .. }, _)) = events.first()
        {
            for (event, _) in events {
                match event {
                    Event::Statistic { of: Statistic::FeatureMoments, multiplier } => {
                        parts.normalize = Some(*multiplier)
                    }
                    Event::Statistic { of: Statistic::NonFiniteCount, multiplier } => {
                        parts.non_finite = Some(*multiplier)
                    }
                    draws => training = draws,
                }
            }
        }
        if let Event::Correlated { noise, event } = training {
            (training, parts.correlation) = (event, Some(&**noise));
        }
        let Event::Compose(draws) = training else { return None };
        Some(Self { draws, ..parts })
    }
}
