//! ε, δ and divergences of an event.

use super::Event;
use super::canonical::{self, Part};
use crate::delta::{check_delta, smallest_delta};
use crate::plan::with;
use crate::pld::{self, Neighbours};
use crate::selection::{self, Curve};
use crate::{Accountant, AccountingError, EpsilonBound, Plan, smaller};
use damper_core::accounting::event::SampledGaussian;
use damper_core::accounting::renyi::least_epsilon;

/// The largest number of draws that are listed individually.
pub(crate) const SCHEDULE: u64 = 1 << 24;

impl Event {
    /// ε at `delta`, rounded up. A private search always uses Rényi divergences, for either accountant.
    ///
    /// # Errors
    ///
    /// A rate, a multiplier or δ is outside its range, nothing is released, or no finite ε holds.
    pub fn epsilon(&self, accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
        check_delta(delta)?;
        epsilon_of(&canonical::parts(self)?, accountant, delta)
    }

    /// ε at `delta` if neighbours replace one sample by another, by privacy loss distributions.
    ///
    /// The multiplier of a draw covers all its releases, so all of them count as moved to the opposite.
    ///
    /// # Errors
    ///
    /// As [`Event::epsilon`], or the event has a private search, or correlated noise on Poisson draws.
    ///
    /// ```
    /// use damper_accounting::{Accountant, Event, sampling_rate};
    ///
    /// let run = Event::poisson(sampling_rate(0.01)?, Event::gaussian(2.0)?)?.times(100);
    /// assert!(run.epsilon_of_replaced(1e-5)?.epsilon > run.epsilon(Accountant::Pld, 1e-5)?.epsilon);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn epsilon_of_replaced(&self, delta: f64) -> Result<EpsilonBound, AccountingError> {
        if self.has_blocks() {
            return Err(AccountingError::ReplacedBlocks);
        }
        if self.has_selection() {
            return Err(AccountingError::ReplacedSearch);
        }
        check_delta(delta)?;
        worst(&canonical::parts(self)?, |part| {
            part.at(delta, |draws, delta| {
                let all = with(part.release, draws);
                Ok(EpsilonBound { epsilon: pld::of_discrete(&all, Neighbours::Replace, delta)?, order: None })
            })
        })
    }

    /// Rényi divergences of all releases.
    ///
    /// # Errors
    ///
    /// As [`Event::epsilon`], or draws are truncated, so that no divergence exists.
    ///
    /// ```
    /// use damper_accounting::Event;
    ///
    /// // α/2σ² of a release, and sums of it.
    /// let (one, ten) = (Event::gaussian(2.0)?.divergences()?, Event::gaussian(2.0)?.times(10).divergences()?);
    /// assert!(one.iter().zip(&ten).all(|(one, ten)| *ten >= 10.0 * one - 1e-9));
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn divergences(&self) -> Result<Curve, AccountingError> {
        canonical::divergences(canonical::parts(self)?.iter())
    }

    /// δ at `epsilon`: an upper bound, at most a thousandth above the least δ that this accountant certifies. The
    /// result is at least 1e-15, and 1 if no smaller δ is found.
    ///
    /// # Errors
    ///
    /// ε is not a finite number of at least 0, or as [`Event::epsilon`].
    ///
    /// ```
    /// use damper_accounting::{Accountant, Event};
    ///
    /// let event = Event::gaussian(2.0)?;
    /// let epsilon = event.epsilon(Accountant::Pld, 1e-5)?.epsilon;
    /// assert!((0.99e-5..1.01e-5).contains(&event.delta(Accountant::Pld, epsilon)?));
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn delta(&self, accountant: Accountant, epsilon: f64) -> Result<f64, AccountingError> {
        let parts = canonical::parts(self)?;
        delta_at(epsilon, |delta| epsilon_of(&parts, accountant, delta))
    }
}

fn epsilon_of(parts: &[Part], accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
    worst(parts, |part| part.at(delta, |draws, delta| part.uncut(accountant, draws, delta)))
}

/// The largest ε over all sets.
fn worst(
    parts: &[Part],
    epsilon: impl Fn(&Part) -> Result<EpsilonBound, AccountingError>,
) -> Result<EpsilonBound, AccountingError> {
    let larger = |a: EpsilonBound, b: EpsilonBound| if b.epsilon > a.epsilon { b } else { a };
    parts.iter().map(epsilon).reduce(|a, b| Ok(larger(a?, b?))).unwrap_or(Err(AccountingError::Steps))
}

/// δ at `epsilon`. `epsilon_at` returns ε at each δ.
pub(crate) fn delta_at(
    epsilon: f64,
    epsilon_at: impl Fn(f64) -> Result<EpsilonBound, AccountingError>,
) -> Result<f64, AccountingError> {
    if !(epsilon >= 0.0 && epsilon.is_finite()) {
        return Err(AccountingError::EpsilonOfDelta(epsilon));
    }
    smallest_delta(epsilon, |delta| match epsilon_at(delta) {
        Ok(bound) => Ok(bound.epsilon),
        Err(
            AccountingError::NothingHolds { .. } | AccountingError::Truncation { .. } | AccountingError::Group { .. },
        ) => Ok(f64::INFINITY),
        Err(error) => Err(error),
    })
}

impl Part {
    /// ε at the part of δ that truncation leaves. `epsilon` returns ε of the settled draws at each δ.
    pub(crate) fn at(
        &self,
        delta: f64,
        epsilon: impl Fn(&[(SampledGaussian, u64)], f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<EpsilonBound, AccountingError> {
        let draws = self.settled()?;
        let finite = |delta| {
            let found = epsilon(&draws, delta)?;
            if found.epsilon.is_finite() {
                return Ok(found);
            }
            Err(AccountingError::NothingHolds { multiplier: self.smallest_multiplier(), steps: self.steps() })
        };
        match self.cut() {
            None => finite(delta),
            Some((truncation, any)) => Ok(truncation.price(delta, any, finite)?.price),
        }
    }

    fn uncut(
        &self,
        accountant: Accountant,
        draws: &[(SampledGaussian, u64)],
        delta: f64,
    ) -> Result<EpsilonBound, AccountingError> {
        if !self.searches.is_empty() {
            let (epsilon, order) = selection::epsilon(&self.curve(draws)?, delta);
            return Ok(EpsilonBound { epsilon, order: Some(order) });
        }
        // A schedule's draws differ. The Rényi accountant composes them by a plan's few knots.
        let all = with(self.release, draws);
        let alike = draws.iter().all(|(event, _)| event.rate() == draws[0].0.rate());
        let plan = || {
            let each = draws.iter().flat_map(|(event, times)| std::iter::repeat_n(event.multiplier(), *times as usize));
            let plan = |rate| Plan::new(rate, each, None).map(|plan| plan.with_release(self.release));
            draws.first().filter(|_| alike && self.steps() <= SCHEDULE).map(|(event, _)| plan(event.rate()))
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
}
