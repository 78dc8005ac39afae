//! Mechanisms as an accountant composes them: releases, draws, and their compositions.

pub(crate) mod canonical;
pub(crate) mod group;
pub(crate) mod privacy_cost;
#[cfg(test)]
mod tests;

use super::correlated::{CorrelatedNoise, CorrelatedRun};
use super::selection::CandidateCount;
use super::truncation::Truncation;
use super::{AccountingError, Sampler};
use damper_core::accounting::event::{Rate, SampledGaussian};

/// A mechanism: a release from a data set with noise.
///
/// Neighbouring data sets differ in one sample, which only one of them contains. Events compose: an event may depend on
/// everything that earlier events released. [`Event::epsilon`] returns the privacy cost of the composition.
///
/// Constructors check ranges. A variant built by hand is checked when its privacy cost is computed.
///
/// ```
/// use damper_accounting::{Accountant, CorrelatedRun, Event, Rate, sampling_rate};
/// use damper_core::noise::{AnyCorrelation, Participation};
///
/// # fn main() -> Result<(), damper_accounting::AccountingError> {
/// let epsilon = |event: &Event| event.epsilon(Accountant::Pld, 1e-5).map(|bound| bound.epsilon);
///
/// // DP-SGD: 1000 steps, each a Poisson draw of 1 % of the samples. The noise is 1.1 times the clipping threshold.
/// let run = Event::poisson(sampling_rate(0.01)?, Event::gaussian(1.1)?)?.times(1000);
/// let alone = epsilon(&run)?;
/// assert!((1.51..1.52).contains(&alone), "{alone}");
///
/// // Two runs on the same data, and the mean of a feature with noise. Both cost less than the sum of their ε.
/// let both = Event::compose([run.clone(), run.clone(), Event::gaussian(20.0)?]);
/// assert!(epsilon(&both)? < 2.0 * alone);
///
/// // The best of about ten candidates, each trained by such a run. The best one alone is released.
/// let best = Event::best_of("geometric:0.1".parse()?, vec![run])?;
/// assert!((alone..4.0 * alone).contains(&epsilon(&best)?));
///
/// // 200 steps in a fixed order, with correlated noise. A sample takes part every 20 steps.
/// let noise = CorrelatedRun {
///     correlation: AnyCorrelation::banded(&[1.0, 0.75, 0.5])?,
///     participation: Participation::new(200, 20, 10)?,
///     rate: None,
///     parameters: 1000,
///     grid_bits: 20,
///     sigma: 0,
/// };
/// let correlated = Event::correlated(&noise.with_multiplier(2.0)?)?;
/// assert!((1.9..2.1).contains(&epsilon(&correlated)?));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A Gaussian release from all samples. A sample moves it by at most the sensitivity.
    Gaussian {
        /// σ over the sensitivity.
        multiplier: f64,
    },
    /// A Gaussian release of a statistic of all samples, before any draw. All statistics of a composition cost as much
    /// as one Gaussian release with the summed inverse variances.
    Statistic {
        /// The statistic.
        of: Statistic,
        /// σ over the sensitivity.
        multiplier: f64,
    },
    /// One or several Gaussian releases from one Poisson draw: each sample is drawn with probability `rate`,
    /// independently.
    Poisson {
        /// The sampling rate.
        rate: Rate,
        /// The releases from the draw.
        event: Box<Event>,
    },
    /// Events in sequence, each with its number of repetitions.
    Compose(Vec<(Event, u64)>),
    /// Events of disjoint sets of samples. The sets are public, so ε is the largest of all sets.
    Disjoint(Vec<Event>),
    /// Draws that are truncated if they are too large. A statistic is not truncated.
    Truncated {
        /// The largest draw.
        truncation: Truncation,
        /// The draws before truncation.
        event: Box<Event>,
    },
    /// Releases with correlated noise: one Gaussian for the whole run in a fixed order, or a Poisson draw of each
    /// group.
    Correlated {
        /// The correlation, which determines the multiplier.
        noise: Box<CorrelatedNoise>,
        /// The releases. Their multipliers are at most the determined multiplier.
        event: Box<Event>,
    },
    /// The best of a random number of candidates. Each candidate draws one of the events `of`.
    Selection {
        /// The distribution of the number of candidates.
        candidates: CandidateCount,
        /// The events of a candidate.
        of: Vec<Event>,
    },
}

/// A statistic of all training samples.
///
/// ```
/// use damper_accounting::{Event, Statistic};
///
/// let release = Event::Statistic { of: Statistic::FeatureMoments, multiplier: 20.0 };
/// assert_eq!(release.divergences()?, Event::gaussian(20.0)?.divergences()?);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// Means and deviations of the features.
    FeatureMoments,
    /// The number of samples without a finite gradient.
    NonFiniteCount,
}

impl Event {
    /// A Gaussian release from all samples.
    ///
    /// # Errors
    ///
    /// The multiplier is not a finite number above 0.
    pub fn gaussian(multiplier: f64) -> Result<Self, AccountingError> {
        gaussian(Rate::ONE, multiplier).map(|_| Self::Gaussian { multiplier })
    }

    /// `event`, released from a Poisson draw at `rate`.
    ///
    /// # Errors
    ///
    /// The rate is 0, or `event` has a release that is not Gaussian.
    pub fn poisson(rate: Rate, event: Self) -> Result<Self, AccountingError> {
        event.drawn(rate)?;
        Ok(Self::Poisson { rate, event: Box::new(event) })
    }

    /// This event `times` times, in sequence.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self::Compose(vec![(self, times)])
    }

    /// Events in sequence.
    pub fn compose(events: impl IntoIterator<Item = Self>) -> Self {
        Self::Compose(events.into_iter().map(|event| (event, 1)).collect())
    }

    /// This event with draws of more than `truncation.most` samples truncated.
    ///
    /// ```
    /// use damper_accounting::{Accountant, Event, Truncation, sampling_rate};
    ///
    /// let run = Event::poisson(sampling_rate(0.01)?, Event::gaussian(1.1)?)?.times(1000);
    /// let truncated = run.clone().truncated(Truncation { samples: 60_000, most: 900 });
    /// let epsilon = |event: &Event| event.epsilon(Accountant::Pld, 1e-5).map(|bound| bound.epsilon);
    /// assert!(epsilon(&run)? <= epsilon(&truncated)?);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    #[must_use]
    pub fn truncated(self, truncation: Truncation) -> Self {
        Self::Truncated { truncation, event: Box::new(self) }
    }

    /// All steps of a run with correlated noise.
    ///
    /// # Errors
    ///
    /// As [`CorrelatedRun::event`].
    pub fn correlated(run: &CorrelatedRun) -> Result<Self, AccountingError> {
        let sampler = if run.rate.is_some() { Sampler::CyclicPoisson } else { Sampler::MinSeparation };
        let event = Box::new(Self::Compose(Self::draws(sampler, &[run.event()?])));
        Ok(Self::Correlated { noise: Box::new(run.into()), event })
    }

    /// The best of a random number of candidates, each with one of the events `of`.
    ///
    /// # Errors
    ///
    /// `of` is empty.
    pub fn best_of(candidates: CandidateCount, of: Vec<Self>) -> Result<Self, AccountingError> {
        if of.is_empty() {
            return Err(AccountingError::Steps);
        }
        Ok(Self::Selection { candidates, of })
    }

    /// The draws of `sampler` that released something, in the form that [`Event::Compose`] takes. A sampler without
    /// Poisson draws takes Gaussian releases at a rate of 1.
    ///
    /// ```
    /// use damper_accounting::{Event, Sampler, sampling_rate};
    /// use damper_core::accounting::SampledGaussian;
    ///
    /// let rate = sampling_rate(0.01)?;
    /// let draws = Event::draws(Sampler::Poisson, &[(SampledGaussian::new(rate, 1.1).unwrap(), 1000)]);
    /// assert_eq!((draws[0].0.rate_and_multiplier(), draws[0].1), (Some((rate, 1.1)), 1000));
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    #[must_use]
    pub fn draws(sampler: Sampler, events: &[(SampledGaussian, u64)]) -> Vec<(Self, u64)> {
        let listed = |(event, times): &(SampledGaussian, u64)| {
            (Self::draw(sampler.has_coins(), event.rate(), event.multiplier()), *times)
        };
        events.iter().map(listed).collect()
    }

    /// Releases at a rate of 1 without draws, in the form that [`Event::Compose`] takes.
    #[must_use]
    pub fn releases(events: &[(SampledGaussian, u64)]) -> Vec<(Self, u64)> {
        Self::draws(Sampler::Shuffled, events)
    }

    /// One draw, or a Gaussian release without a draw at a rate of 1.
    pub(crate) fn draw(has_coins: bool, rate: Rate, multiplier: f64) -> Self {
        let gaussian = Self::Gaussian { multiplier };
        if has_coins || rate != Rate::ONE { Self::Poisson { rate, event: Box::new(gaussian) } } else { gaussian }
    }

    /// Rate and multiplier of a draw, with all its releases combined, unchecked. None if the event is not one draw of
    /// one release.
    #[must_use]
    pub fn rate_and_multiplier(&self) -> Option<(Rate, f64)> {
        match self {
            Self::Gaussian { multiplier } => Some((Rate::ONE, *multiplier)),
            Self::Poisson { rate, event } => match **event {
                Self::Gaussian { multiplier } => Some((*rate, multiplier)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if Poisson draws have blocks of correlated noise.
    pub(crate) fn has_blocks(&self) -> bool {
        let is_draw = |event: &Self| matches!(event, Self::Poisson { .. });
        self.any(&|event| matches!(event, Self::Correlated { event, .. } if event.any(&is_draw)))
    }

    /// Returns true if the best of several candidates is released.
    pub(crate) fn has_selection(&self) -> bool {
        self.any(&|event| matches!(event, Self::Selection { .. }))
    }

    /// Returns true if `is` holds for this event or for any event inside it.
    fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        is(self)
            || match self {
                Self::Gaussian { .. } | Self::Statistic { .. } => false,
                Self::Poisson { event, .. } | Self::Truncated { event, .. } | Self::Correlated { event, .. } => {
                    event.any(is)
                }
                Self::Compose(events) => events.iter().any(|(event, _)| event.any(is)),
                Self::Disjoint(events) | Self::Selection { of: events, .. } => events.iter().any(|event| event.any(is)),
            }
    }

    /// All Gaussian releases of this event, from one draw at `rate`, as one release.
    pub(crate) fn drawn(&self, rate: Rate) -> Result<SampledGaussian, AccountingError> {
        match self {
            Self::Gaussian { multiplier } => gaussian(rate, *multiplier),
            Self::Compose(events) => {
                let all = events
                    .iter()
                    .try_fold(None, |sum, (event, times)| joint(sum, repeated(event.drawn(rate)?, *times)?));
                all?.ok_or(AccountingError::Steps)
            }
            _ => Err(AccountingError::Drawn),
        }
    }
}

fn gaussian(rate: Rate, multiplier: f64) -> Result<SampledGaussian, AccountingError> {
    if rate == Rate::ZERO {
        return Err(AccountingError::SamplingRate(0.0));
    }
    SampledGaussian::new(rate, multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))
}

/// Combines releases from one draw into one release with the summed inverse variances, rounded toward less noise.
pub(crate) fn joint(
    one: Option<SampledGaussian>,
    two: Option<SampledGaussian>,
) -> Result<Option<SampledGaussian>, AccountingError> {
    match (one, two) {
        (Some(one), Some(two)) => {
            one.and(two.multiplier()).map(Some).map_err(|_| AccountingError::NoiseMultiplier(two.multiplier()))
        }
        (one, two) => Ok(one.or(two)),
    }
}

/// Combines `times` equal releases from one draw into one release.
pub(crate) fn repeated(release: SampledGaussian, times: u64) -> Result<Option<SampledGaussian>, AccountingError> {
    let (mut sum, mut power, mut left) = (None, Some(release), times);
    while left > 0 {
        if left & 1 == 1 {
            sum = joint(sum, power)?;
        }
        left >>= 1;
        if left > 0 {
            power = joint(power, power)?;
        }
    }
    Ok(sum)
}
