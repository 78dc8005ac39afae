//! Bounds of ε and δ of a mechanism.

use super::DpEvent;
use super::adjacency::Adjacency;
use super::flat::{Flat, halved};
use crate::delta::{check_delta, smallest_delta};
use crate::pld::Neighbours;
use crate::pld::bound::Bound;
use crate::{AccountingError, EpsilonBound, Truncation, coins, selection};
use damper_core::accounting::event::Rate;
use damper_core::accounting::renyi::least_epsilon;
use damper_core::numerics::up::{add_up, exp_up, mul_up};

/// Above this number of steps, or below this δ, both bounds are compared. They differ by at most this share, or by this
/// ε.
const MANY_STEPS: u64 = 10_000_000;
const SMALL_DELTA: f64 = 1e-15;
const NEAR: f64 = 0.01;
const LEAST: f64 = 1e-4;
/// Up to this number of steps, privacy loss distributions give the smaller bound.
const FEW_STEPS: u64 = 1_000_000;
/// Up to this number of different Gaussians, their divergences are computed.
const ONE_BY_ONE: usize = 128;

impl DpEvent {
    /// ε at `delta`: an upper bound of the exact ε. Infinite for a release without privacy, and 0 if nothing is
    /// released.
    ///
    /// Privacy loss distributions give it, or Rényi divergences if their bound is smaller, or alone for
    /// [`DpEvent::Selection`] and [`DpEvent::Concentrated`].
    ///
    /// # Errors
    ///
    /// A value is outside its range, a part has no proved bound under this adjacency, or no finite ε is found. Beyond
    /// ten million steps or a δ of 1e-15, the lower bound may be more than 1 % below. [`DpEvent::epsilon_bounds`] has
    /// both.
    pub fn epsilon(&self, adjacency: Adjacency, delta: f64) -> Result<f64, AccountingError> {
        let (flat, upper) = self.upper(adjacency, delta)?;
        if is_extreme(&flat, delta)
            && let Some(lower) = self.epsilon_lower_bound(adjacency, delta)?
            && upper - lower > f64::max(NEAR * lower, LEAST)
        {
            return Err(AccountingError::Imprecise { of: "epsilon", lower, upper });
        }
        Ok(upper)
    }

    /// The upper bound of ε, with the releases.
    pub(super) fn upper(&self, adjacency: Adjacency, delta: f64) -> Result<(Flat, f64), AccountingError> {
        check_delta(delta)?;
        let flat = Flat::new(self, adjacency, Bound::Upper)?;
        let upper = epsilon_of(&flat, delta)?;
        Ok((flat, upper))
    }

    /// A lower bound of the exact ε at `delta`, next to [`DpEvent::epsilon`]. `None` if a part has only an upper
    /// bound, as if its divergences alone are known.
    ///
    /// # Errors
    ///
    /// As [`DpEvent::epsilon`].
    pub fn epsilon_lower_bound(&self, adjacency: Adjacency, delta: f64) -> Result<Option<f64>, AccountingError> {
        check_delta(delta)?;
        let flat = Flat::new(self, adjacency, Bound::Lower)?;
        if !flat.is_private {
            return Ok(Some(f64::INFINITY));
        }
        if flat.curve.is_some() || flat.is_above {
            return Ok(None);
        }
        if flat.releases.is_empty() {
            return Ok(Some(0.0));
        }
        let mut delta = delta;
        if let Some((any, _)) = flat.truncated {
            // δ of the run without truncation is larger by at most (1 + e^ε)·τ.
            delta = add_up(delta, mul_up(add_up(1.0, exp_up(self.upper(adjacency, delta)?.1)), any));
        }
        if delta >= 1.0 {
            return Ok(Some(0.0));
        }
        Ok(Some(flat.releases.epsilon(flat.neighbours(), Bound::Lower, delta)))
    }

    /// Both bounds of ε at `delta`. The exact ε is between them.
    ///
    /// # Errors
    ///
    /// As [`DpEvent::epsilon`].
    pub fn epsilon_bounds(&self, adjacency: Adjacency, delta: f64) -> Result<(Option<f64>, f64), AccountingError> {
        let (_, upper) = self.upper(adjacency, delta)?;
        // Each bound has its own roundings.
        Ok((self.epsilon_lower_bound(adjacency, delta)?.map(|lower| lower.min(upper)), upper))
    }

    /// ε at `delta` by Rényi divergences alone, with the order that gives it: an upper bound, as other Rényi
    /// accountants report.
    ///
    /// # Errors
    ///
    /// As [`DpEvent::epsilon`], or a part has no finite divergence.
    ///
    /// ```
    /// use damper_accounting::{Adjacency, DpEvent};
    ///
    /// let run = DpEvent::gaussian(1.1).poisson(0.01).times(1000);
    /// let bound = run.epsilon_by_orders(Adjacency::AddOrRemove, 1e-5)?;
    /// assert!(bound.order.is_some() && bound.epsilon >= run.epsilon(Adjacency::AddOrRemove, 1e-5)?);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn epsilon_by_orders(&self, adjacency: Adjacency, delta: f64) -> Result<EpsilonBound, AccountingError> {
        check_delta(delta)?;
        let flat = Flat::new(self, adjacency, Bound::Upper)?;
        if flat.releases.is_empty() && flat.curve.is_none() && flat.is_private {
            return Ok(EpsilonBound { epsilon: 0.0, order: None });
        }
        if flat.is_private && flat.curve.is_none() && flat.releases.parts.is_empty() && flat.truncated.is_none() {
            let least = orders(&flat, delta)?;
            return least.ok_or(AccountingError::NoBound { delta });
        }
        let (epsilon, order) = selection::epsilon(&flat.divergences()?, delta);
        Ok(EpsilonBound { epsilon, order: Some(order) })
    }

    /// δ at `epsilon`: an upper bound of the exact δ, at most 1.
    ///
    /// # Errors
    ///
    /// ε is not a finite number of at least 0, or as [`DpEvent::epsilon`].
    pub fn delta(&self, adjacency: Adjacency, epsilon: f64) -> Result<f64, AccountingError> {
        check_epsilon(epsilon)?;
        let flat = Flat::new(self, adjacency, Bound::Upper)?;
        let upper = delta_of(&flat, epsilon)?;
        if is_extreme(&flat, upper)
            && let Some(lower) = self.delta_lower_bound(adjacency, epsilon)?
            && upper - lower > NEAR * lower
        {
            return Err(AccountingError::Imprecise { of: "delta", lower, upper });
        }
        Ok(upper)
    }

    /// Both bounds of δ at `epsilon`. The exact δ is between them.
    ///
    /// # Errors
    ///
    /// As [`DpEvent::delta`].
    ///
    /// ```
    /// use damper_accounting::{Adjacency, DpEvent};
    ///
    /// let run = DpEvent::gaussian(2.0);
    /// let (low, high) = run.delta_bounds(Adjacency::AddOrRemove, 1.0)?;
    /// assert_eq!(low, run.delta_lower_bound(Adjacency::AddOrRemove, 1.0)?);
    /// assert!(low.unwrap() <= high && high < 1.01 * low.unwrap());
    /// let epsilon = run.epsilon(Adjacency::AddOrRemove, 1e-5)?;
    /// assert!(run.epsilon_lower_bound(Adjacency::AddOrRemove, 1e-5)?.unwrap() <= epsilon);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn delta_bounds(&self, adjacency: Adjacency, epsilon: f64) -> Result<(Option<f64>, f64), AccountingError> {
        check_epsilon(epsilon)?;
        let upper = delta_of(&Flat::new(self, adjacency, Bound::Upper)?, epsilon)?;
        Ok((self.delta_lower_bound(adjacency, epsilon)?.map(|lower| lower.min(upper)), upper))
    }

    /// A lower bound of the exact δ at `epsilon`, next to [`DpEvent::delta`]. `None` if a part has only an upper
    /// bound.
    ///
    /// # Errors
    ///
    /// As [`DpEvent::delta`].
    pub fn delta_lower_bound(&self, adjacency: Adjacency, epsilon: f64) -> Result<Option<f64>, AccountingError> {
        check_epsilon(epsilon)?;
        let flat = Flat::new(self, adjacency, Bound::Lower)?;
        if !flat.is_private {
            return Ok(Some(1.0));
        }
        if flat.curve.is_some() || flat.is_above {
            return Ok(None);
        }
        if flat.releases.is_empty() {
            return Ok(Some(0.0));
        }
        let found = flat.releases.delta(flat.neighbours(), Bound::Lower, epsilon);
        let taken = flat.truncated.map_or(0.0, |(any, _)| mul_up(add_up(1.0, exp_up(epsilon)), any));
        Ok(Some((found - taken).max(0.0)))
    }
}

/// Returns true if a question without a closed form is at an end of what the accountant resolves.
fn is_extreme(flat: &Flat, delta: f64) -> bool {
    let is_plain = !flat.is_private || flat.curve.is_some() || flat.releases.is_exact(flat.neighbours());
    !is_plain && (delta < SMALL_DELTA || flat.releases.steps() > MANY_STEPS)
}

fn check_epsilon(epsilon: f64) -> Result<(), AccountingError> {
    if epsilon >= 0.0 && epsilon.is_finite() { Ok(()) } else { Err(AccountingError::EpsilonOfDelta(epsilon)) }
}

/// The upper bound of δ at `epsilon`.
fn delta_of(flat: &Flat, epsilon: f64) -> Result<f64, AccountingError> {
    if !flat.is_private {
        return Ok(1.0);
    }
    if flat.curve.is_some() {
        let curve = flat.divergences()?;
        return smallest_delta(epsilon, |delta| Ok(selection::epsilon(&curve, delta).0));
    }
    if flat.releases.is_empty() {
        return Ok(0.0);
    }
    let found = flat.releases.delta(flat.neighbours(), Bound::Upper, epsilon);
    let taken = flat.truncated.map_or(0.0, |(any, _)| mul_up(add_up(1.0, exp_up(epsilon)), any));
    Ok(add_up(found, taken).min(1.0))
}

fn epsilon_of(flat: &Flat, delta: f64) -> Result<f64, AccountingError> {
    if !flat.is_private {
        return Ok(f64::INFINITY);
    }
    if flat.curve.is_some() {
        return finite(selection::epsilon(&flat.divergences()?, delta).0, delta);
    }
    if flat.releases.is_empty() {
        return Ok(0.0);
    }
    let at = |delta| finite(tight(flat, delta)?, delta);
    match flat.truncated {
        None => at(delta),
        Some((any, most)) => {
            let bound = |delta| Ok(EpsilonBound { epsilon: at(delta)?, order: None });
            // The number of samples is in `any` already.
            Ok(Truncation { samples: most, most }.price(delta, any, bound)?.price.epsilon)
        }
    }
}

fn finite(epsilon: f64, delta: f64) -> Result<f64, AccountingError> {
    if epsilon.is_finite() { Ok(epsilon) } else { Err(AccountingError::NoBound { delta }) }
}

/// ε by privacy loss distributions, or by another bound of Gaussians that is smaller.
fn tight(flat: &Flat, delta: f64) -> Result<f64, AccountingError> {
    let found = flat.releases.epsilon(flat.neighbours(), Bound::Upper, delta);
    if !flat.releases.parts.is_empty() || flat.releases.is_exact(flat.neighbours()) {
        return Ok(found);
    }
    let mut found = found;
    if flat.neighbours() == Neighbours::AddOrRemove {
        found = found.min(coins::epsilon(&flat.releases.gaussians, delta));
    }
    if found.is_finite() && flat.releases.steps() <= FEW_STEPS {
        return Ok(found);
    }
    Ok(orders(flat, delta)?.map_or(found, |least| least.epsilon.min(found)))
}

/// ε of Gaussians by Rényi divergences. `None` if they have no bound, or if there are too many.
fn orders(flat: &Flat, delta: f64) -> Result<Option<EpsilonBound>, AccountingError> {
    let mut events = flat.releases.gaussians.clone();
    if flat.adjacency == Adjacency::ReplaceOne {
        if events.iter().any(|(event, _)| event.rate() != Rate::ONE) {
            return Ok(None);
        }
        for (event, _) in &mut events {
            *event = halved(event)?;
        }
    }
    if events.len() > ONE_BY_ONE {
        return Ok(None);
    }
    let least = least_epsilon(&events, delta).ok().filter(|least| least.epsilon.is_finite());
    Ok(least.map(|least| EpsilonBound { epsilon: least.epsilon, order: Some(least.order) }))
}
