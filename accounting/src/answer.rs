//! Results of `damper epsilon` and `damper calibrate`: plain data, the fixed JSON keys first.

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

use super::calibration::batch_rate;
use super::event::privacy_cost::delta_at;
use super::pld::{self, Neighbours};
use super::price::upward;
use super::replaced::apart;
use super::{
    Accountant, AccountingError, EpsilonBound, Event, Plan, Sampler, calibrate, calibrate_batch, calibrate_on_grid,
    calibrate_rate, calibrate_steps, epsilon, sampling_rate,
};
use damper_core::accounting::event::{Rate, SampledGaussian};

/// Assumptions of every ε in this module. They are printed next to the figure.
const RDP_ASSUMES: [&str; 5] = [
    NEIGHBOURS,
    SAMPLING,
    FIXED,
    "at fractional orders a discrete Gaussian counts as a continuous one: sigma is at least 1024 grid units",
    "Rényi accountant, every rounding upward; this run alone, other runs on the same data add to it",
];
const PLD_ASSUMES: [&str; 5] = [
    NEIGHBOURS,
    SAMPLING,
    FIXED,
    "a discrete Gaussian is bounded by the continuous one at a multiplier 4e-6 smaller: sigma is at least 1024 grid units",
    "privacy loss distributions, every rounding upward; this run alone, other runs on the same data add to it",
];
const REPLACED: &str =
    "neighbours: one sample in the place of another, drawn by the same coin; the sum moves by up to twice the clip";
const GROUP: &str = "neighbours: all samples of the group there, or none of them, each drawn by a coin of its own and clipped by itself; the number of \
     samples is public";
const REPLACED_GROUP: &str =
    "neighbours: all samples of the group in the places of as many others; k changes of one sample each";
const NEIGHBOURS: &str =
    "neighbours: one sample replaced by a null sample that contributes nothing; the number of samples is public";
const SAMPLING: &str =
    "sampling: each step an independent Poisson draw at exactly this rate; the released mean divides by a constant";
const FIXED: &str =
    "multiplier, rate and steps are fixed before data is read; each step releases one sum of clipped gradients";

const RENYI_IS_SMALLER: &str = "Rényi divergences, whose bound is here smaller than that of privacy loss distributions, every rounding upward; this run alone, \
     other runs on the same data add to it";

fn assumptions(accountant: Accountant, neighbours: Neighbours, order: Option<f64>) -> Vec<&'static str> {
    let mut all = match accountant {
        Accountant::Rdp => RDP_ASSUMES,
        Accountant::Pld => PLD_ASSUMES,
    };
    if accountant == Accountant::Pld && order.is_some() {
        all[4] = RENYI_IS_SMALLER;
    }
    if neighbours == Neighbours::Replace {
        all[0] = REPLACED;
    }
    all.to_vec()
}

/// Input of `damper epsilon`.
///
/// ```
/// use damper_accounting::{Accountant, EpsilonQuery, pld::Neighbours};
///
/// // `damper epsilon --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5`
/// let query = EpsilonQuery {
///     accountant: Accountant::Pld,
///     noise_multiplier: 1.1,
///     sampling_rate: 0.01,
///     steps: 1000,
///     delta: 1e-5,
///     neighbours: Neighbours::AddOrRemove,
///     count_noise_multiplier: None,
///     group: None,
/// };
/// let result = query.answer()?;
/// assert!((1.51..1.52).contains(&result.epsilon));
/// // The δ of that ε.
/// let delta = query.delta_at(result.epsilon)?;
/// assert!((0.99e-5..1.01e-5).contains(&delta));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpsilonQuery {
    /// The accountant that bounds ε.
    pub accountant: Accountant,
    /// Standard deviation of the noise, in clips.
    pub noise_multiplier: f64,
    /// Probability that a batch contains a given sample.
    pub sampling_rate: f64,
    /// Number of draws.
    pub steps: u64,
    /// δ.
    pub delta: f64,
    /// The neighbour relation.
    pub neighbours: Neighbours,
    /// Multiplier of one-hot counts that each step releases next to the gradient.
    pub count_noise_multiplier: Option<f64>,
    /// Samples of a group, which are either all present or all absent. None for single samples.
    pub group: Option<NonZeroU32>,
}

/// Input of `damper calibrate`. Exactly one of ε, multiplier, steps and rate is missing, and is found. If the number of
/// samples is given, the expected batch takes the role of the rate.
///
/// ```
/// use damper_accounting::{Accountant, CalibrateQuery};
///
/// // `damper calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 1000`
/// let query = CalibrateQuery {
///     accountant: Accountant::Pld,
///     epsilon: Some(3.0),
///     delta: 1e-5,
///     noise_multiplier: None,
///     sampling_rate: Some(0.01),
///     samples: None,
///     batch_size: None,
///     steps: Some(1000),
///     grid_bits: None,
/// };
/// let result = query.answer()?;
/// assert!((0.7..0.9).contains(&result.noise_multiplier) && (2.99..=3.0).contains(&result.epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrateQuery {
    /// The accountant that bounds ε.
    pub accountant: Accountant,
    /// ε.
    pub epsilon: Option<f64>,
    /// δ.
    pub delta: f64,
    /// Standard deviation of the noise in clips.
    pub noise_multiplier: Option<f64>,
    /// Probability that a batch contains a given sample.
    pub sampling_rate: Option<f64>,
    /// Number of samples. The rate is then `batch_size/samples`, and `sampling_rate` is not given.
    pub samples: Option<u64>,
    /// The expected batch.
    pub batch_size: Option<u64>,
    /// Number of draws.
    pub steps: Option<u64>,
    /// Calibrates the integer σ that a grid of this many bits runs.
    pub grid_bits: Option<u32>,
}

/// Result of either query. It serializes to the fixed keys `epsilon`, `delta`, `noise_multiplier`, `sampling_rate`,
/// `steps`, `accountant`, and more.
///
/// ```
/// use damper_accounting::{AccountingResult, CalibrateQuery, Accountant};
///
/// let query = CalibrateQuery {
///     accountant: Accountant::Rdp, epsilon: None, delta: 1e-5, noise_multiplier: Some(1.1), sampling_rate: Some(0.01),
///     samples: None, batch_size: None, steps: Some(1000), grid_bits: None,
/// };
/// let AccountingResult { epsilon, steps, .. } = query.answer()?;
/// assert!((1.5..2.0).contains(&epsilon) && steps == 1000);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AccountingResult {
    /// ε, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// σ over the clip.
    pub noise_multiplier: f64,
    /// The sampling rate of the query.
    pub sampling_rate: f64,
    /// The number of draws.
    pub steps: u64,
    /// The accountant that bounds ε.
    pub accountant: Accountant,
    /// The Rényi order that gave ε. None if privacy loss distributions gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<f64>,
    /// Numerator `k` of the accounted rate `k / 2^53`, the smallest such rate of at least `sampling_rate`.
    pub sampling_rate_numerator: u64,
    /// The number of samples, if the rate follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The expected batch, if the rate follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// The neighbour relation.
    pub neighbours: Neighbours,
    /// Size of the group that ε protects. None for single samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// The multiplier of counts released next to the gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_noise_multiplier: Option<f64>,
    /// The target of a calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_epsilon: Option<f64>,
    /// σ in grid units, if a grid was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_grid: Option<u64>,
    /// The grid bits, if a grid was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid_bits: Option<u32>,
    /// The assumptions of the figure.
    pub assumptions: Vec<&'static str>,
}

impl AccountingResult {
    fn new(
        accountant: Accountant,
        delta: f64,
        multiplier: f64,
        rate: Rate,
        asked_rate: f64,
        steps: u64,
        price: EpsilonBound,
    ) -> Self {
        Self {
            epsilon: price.epsilon,
            delta,
            noise_multiplier: multiplier,
            sampling_rate: asked_rate,
            steps,
            accountant,
            order: price.order,
            sampling_rate_numerator: rate.numerator(),
            samples: None,
            batch_size: None,
            neighbours: Neighbours::AddOrRemove,
            group: None,
            count_noise_multiplier: None,
            target_epsilon: None,
            sigma_grid: None,
            grid_bits: None,
            assumptions: assumptions(accountant, Neighbours::AddOrRemove, price.order),
        }
    }
}

impl EpsilonQuery {
    /// The draws as an event, for the privacy cost of a group.
    fn event_of_group(&self) -> Result<Event, AccountingError> {
        if self.accountant == Accountant::Rdp {
            return Err(AccountingError::GroupByOrders);
        }
        let rate = sampling_rate(self.sampling_rate)?;
        let plan = Plan::constant(rate, self.noise_multiplier, self.count_noise_multiplier, self.steps)?;
        Ok(Event::Compose(Event::draws(Sampler::Poisson, plan.events())))
    }

    /// δ at `epsilon`: an upper bound, as [`Event::delta`], and 1 if none is found. The query's own δ is not used.
    ///
    /// # Errors
    ///
    /// As [`EpsilonQuery::answer`], or ε is not a finite number of at least 0.
    pub fn delta_at(&self, epsilon: f64) -> Result<f64, AccountingError> {
        // The plan has no δ, so that the search below evaluates it at each δ.
        let plan = Plan::constant(
            sampling_rate(self.sampling_rate)?,
            self.noise_multiplier,
            self.count_noise_multiplier,
            self.steps,
        )?;
        let event = Event::Compose(Event::draws(Sampler::Poisson, plan.events()));
        let is_one = self.group.is_none_or(|size| size == NonZeroU32::MIN);
        if is_one && self.neighbours == Neighbours::AddOrRemove {
            return event.delta(self.accountant, epsilon);
        }
        delta_at(epsilon, |delta| {
            let found = Self { delta, ..*self }.answer()?;
            Ok(EpsilonBound { epsilon: found.epsilon, order: found.order })
        })
    }

    /// Computes ε of the query.
    pub fn answer(&self) -> Result<AccountingResult, AccountingError> {
        let Self { accountant, noise_multiplier, steps, delta, neighbours, count_noise_multiplier, .. } = *self;
        let rate = sampling_rate(self.sampling_rate)?;
        if let Some(size) = self.group.filter(|size| *size > NonZeroU32::MIN) {
            let priced = self.event_of_group()?.epsilon_of_group(size, neighbours, delta)?;
            let answer =
                AccountingResult::new(accountant, delta, noise_multiplier, rate, self.sampling_rate, steps, priced);
            let mut assumptions = assumptions(accountant, neighbours, priced.order);
            if let Some(first) = assumptions.first_mut() {
                *first = if neighbours == Neighbours::Replace { REPLACED_GROUP } else { GROUP };
            }
            return Ok(AccountingResult {
                neighbours,
                count_noise_multiplier,
                group: Some(size.get()),
                assumptions,
                ..answer
            });
        }
        let priced = match (neighbours, accountant) {
            (Neighbours::AddOrRemove, _) => {
                Plan::constant(rate, noise_multiplier, count_noise_multiplier, steps)?.epsilon(accountant, delta)?
            }
            (Neighbours::Replace, Accountant::Rdp) => return Err(AccountingError::Replaced),
            (Neighbours::Replace, Accountant::Pld) => {
                let plan = Plan::constant(rate, noise_multiplier, count_noise_multiplier, steps)?;
                let apart = apart(noise_multiplier, count_noise_multiplier);
                let priced = |(event, times): &(SampledGaussian, u64)| pld::of_replaced(*event, *times, apart, delta);
                let epsilon = plan.events().iter().map(priced).next().unwrap_or(Err(AccountingError::Steps))?;
                if !epsilon.is_finite() {
                    return Err(AccountingError::NothingHolds { multiplier: noise_multiplier, steps });
                }
                EpsilonBound { epsilon, order: None }
            }
        };
        let answer =
            AccountingResult::new(accountant, delta, noise_multiplier, rate, self.sampling_rate, steps, priced);
        Ok(AccountingResult {
            neighbours,
            count_noise_multiplier,
            assumptions: assumptions(accountant, neighbours, priced.order),
            ..answer
        })
    }
}

impl CalibrateQuery {
    /// Finds the missing quantity.
    pub fn answer(&self) -> Result<AccountingResult, AccountingError> {
        let Self { accountant, epsilon: asked_epsilon, delta, grid_bits, samples, .. } = *self;
        let mut batch_size = self.batch_size;
        // The accounted rate, and the rate as it was given.
        let rate = match (self.sampling_rate, samples, batch_size) {
            (None, None, None) | (None, Some(_), None) => None,
            (Some(asked), None, None) => Some((sampling_rate(asked)?, asked)),
            (None, Some(samples), Some(batch)) => {
                let rate = batch_rate(batch, samples)?;
                Some((rate, rate.as_f64()))
            }
            _ => return Err(AccountingError::Draws),
        };
        let found = match (asked_epsilon, self.noise_multiplier, rate, self.steps) {
            (None, Some(multiplier), Some((rate, asked)), Some(steps)) => {
                let price = epsilon(accountant, multiplier, rate, steps, delta)?;
                AccountingResult::new(accountant, delta, multiplier, rate, asked, steps, price)
            }
            (Some(target), None, Some((rate, asked)), Some(steps)) => {
                let (found, sigma_grid) = match grid_bits {
                    None => (calibrate(accountant, target, delta, rate, steps)?, None),
                    Some(bits) => {
                        let grid = calibrate_on_grid(accountant, target, delta, rate, steps, bits)?;
                        (grid.calibrated, Some(grid.sigma))
                    }
                };
                let price = EpsilonBound { epsilon: found.epsilon, order: found.order };
                AccountingResult {
                    sigma_grid,
                    ..AccountingResult::new(accountant, delta, found.multiplier, rate, asked, steps, price)
                }
            }
            (Some(target), Some(multiplier), Some((rate, asked)), None) => {
                let (steps, price) = calibrate_steps(accountant, target, delta, rate, multiplier)?;
                AccountingResult::new(accountant, delta, multiplier, rate, asked, steps, price)
            }
            (Some(target), Some(multiplier), None, Some(steps)) if samples.is_some() => {
                let samples = samples.unwrap_or(0);
                let (batch, price) = calibrate_batch(accountant, target, delta, steps, multiplier, samples)?;
                let rate = batch_rate(batch, samples)?;
                batch_size = Some(batch);
                AccountingResult::new(accountant, delta, multiplier, rate, rate.as_f64(), steps, price)
            }
            (Some(target), Some(multiplier), None, Some(steps)) => {
                let (rate, price) = calibrate_rate(accountant, target, delta, steps, multiplier)?;
                AccountingResult::new(accountant, delta, multiplier, rate, rate.as_f64(), steps, price)
            }
            _ => return Err(AccountingError::Free),
        };
        Ok(AccountingResult { target_epsilon: asked_epsilon, grid_bits, samples, batch_size, ..found })
    }
}

impl fmt::Display for AccountingResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "epsilon           {}", upward(self.epsilon))?;
        if let Some(size) = self.group {
            writeln!(f, "                  of a group of {size}")?;
        }
        writeln!(f, "delta             {:e}", self.delta)?;
        writeln!(f, "noise multiplier  {}", self.noise_multiplier)?;
        if let Some(counts) = self.count_noise_multiplier {
            writeln!(f, "                  and {counts} of counts beside it")?;
        }
        if let (Some(sigma), Some(bits)) = (self.sigma_grid, self.grid_bits) {
            writeln!(f, "                  = {sigma} / 2^{bits}")?;
        }
        writeln!(f, "sampling rate     {}", self.sampling_rate)?;
        if let (Some(samples), Some(batch)) = (self.samples, self.batch_size) {
            writeln!(f, "                  = {batch} of {samples} samples, expected")?;
        }
        writeln!(f, "steps             {}", self.steps)?;
        match (self.accountant, self.order) {
            (Accountant::Rdp, Some(order)) => writeln!(f, "accountant        rdp (order {order})")?,
            (Accountant::Pld, Some(order)) => writeln!(f, "accountant        pld (smaller: rdp at order {order})")?,
            (accountant, None) => writeln!(f, "accountant        {accountant}")?,
        }
        write!(f, "assumes")?;
        for assumption in &self.assumptions {
            write!(f, "\n  - {assumption}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
