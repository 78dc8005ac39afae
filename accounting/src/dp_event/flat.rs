//! The releases of a mechanism as a list, with every rounding on the side of the bound.

use super::DpEvent;
use super::adjacency::Adjacency;
use crate::pld::bound::Bound;
use crate::pld::draw::Direction;
use crate::pld::parts::Composition;
use crate::pld::shape::{LARGEST_LISTED, LARGEST_SHIFT, Part, Shape};
use crate::pld::{Neighbours, discrete};
use crate::selection::{self, Curve};
use crate::{AccountingError, Truncation};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::{ORDERS, RenyiCurve};
use damper_core::numerics::up::{add_up, div_up, mul_up, next_down};

/// The smallest rate. Below it, a multiple of `2^-53` is too far from the rate.
const SMALLEST_RATE: f64 = 1e-13;
/// The largest number of releases. Counts up to it have no rounding.
const MOST_RELEASES: u64 = 1 << 53;
/// The largest loss of a release with a list of losses. Beyond it exponentials overflow.
const LARGEST_LOSS: f64 = 1000.0;
/// The largest shift of a discrete Gaussian in units of σ, for the same reason.
const FARTHEST_SHIFT: f64 = 100.0;
/// The smallest noise of randomised response, for the same reason.
const LEAST_RESPONSE: f64 = 1e-300;
/// A bound on the relative rounding error of one term of a computed multiplier.
const ROUNDED: f64 = 8.0 * f64::EPSILON;

/// The releases of a mechanism.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    pub(super) releases: Composition,
    /// Divergences of parts that have no privacy loss distribution.
    pub(super) curve: Option<Curve>,
    /// The probability that any draw is truncated, rounded up, and the largest draw.
    pub(super) truncated: Option<(f64, u64)>,
    pub(super) is_private: bool,
    /// True if a discrete Gaussian is accounted as the continuous Gaussian above it.
    pub(super) is_above: bool,
    pub(super) adjacency: Adjacency,
    bound: Bound,
}

impl Flat {
    pub(super) fn new(mechanism: &DpEvent, adjacency: Adjacency, bound: Bound) -> Result<Self, AccountingError> {
        let mut flat = Self {
            releases: Composition::default(),
            curve: None,
            truncated: None,
            is_private: true,
            is_above: false,
            adjacency,
            bound,
        };
        flat.add(mechanism, 1)?;
        if flat.releases.steps() > MOST_RELEASES {
            return Err(AccountingError::Releases);
        }
        Ok(flat)
    }

    /// The neighbours of the privacy loss distributions.
    pub(super) fn neighbours(&self) -> Neighbours {
        if self.adjacency == Adjacency::ReplaceOne { Neighbours::Replace } else { Neighbours::AddOrRemove }
    }

    fn add(&mut self, mechanism: &DpEvent, times: u64) -> Result<(), AccountingError> {
        if times == 0 {
            return Ok(());
        }
        match mechanism {
            DpEvent::NonPrivate => self.is_private = false,
            DpEvent::Gaussian { multiplier } => self.gaussian(Rate::ONE, *multiplier, times)?,
            DpEvent::Compose(all) => {
                for (one, each) in all {
                    self.add(one, product(times, *each)?)?;
                }
            }
            DpEvent::Tree { multiplier, steps } => {
                self.ordered(mechanism)?;
                // A node for each bit of the number of steps.
                let depth = u64::from(u64::BITS - steps.leading_zeros());
                self.gaussian(Rate::ONE, *multiplier, product(times, depth)?)?;
            }
            DpEvent::Matrix { multiplier, sensitivity } => {
                self.ordered(mechanism)?;
                in_range("sensitivity", *sensitivity, *sensitivity > 0.0, "a finite number above 0")?;
                multiplied(*multiplier)?;
                let multiplier = self.less(multiplier / sensitivity, 1);
                self.gaussian(Rate::ONE, multiplier, times)?;
            }
            DpEvent::Poisson { rate, of } => self.poisson(*rate, of, times)?,
            DpEvent::FixedSize { population, sample, of } => {
                self.fixed(mechanism, (*sample, *population), of, times)?
            }
            DpEvent::TruncatedPoisson { population, rate, most, multiplier } => {
                if let Some(exact) = self.rate(*rate)? {
                    self.gaussian(exact, *multiplier, times)?;
                    self.truncate(*population, *most, *rate, times)?;
                }
            }
            DpEvent::Concentrated { rho, xi } => {
                in_range("rho", *rho, *rho >= 0.0, "a finite number of at least 0")?;
                in_range("xi", *xi, *xi >= 0.0, "a finite number of at least 0")?;
                let each = |order: f64| mul_up(times as f64, add_up(*xi, mul_up(*rho, order)));
                self.diverge(ORDERS.map(each));
            }
            DpEvent::Selection { candidates, of } => {
                let curve = Self::new(of, self.adjacency, Bound::Upper)?.divergences()?;
                self.diverge(candidates.best(&curve).map(|one| mul_up(times as f64, one)));
            }
            _ => self.shape(mechanism, Rate::ONE, times)?,
        }
        Ok(())
    }

    /// A sampling rate, rounded to the side of the bound. `None` for 0.
    fn rate(&self, rate: f64) -> Result<Option<Rate>, AccountingError> {
        if rate == 0.0 {
            return Ok(None);
        }
        let rounded = if self.bound == Bound::Upper { Rate::at_least(rate) } else { Rate::at_most(rate) };
        match rounded {
            Ok(_) if rate < SMALLEST_RATE => Err(AccountingError::SmallRate(rate)),
            Ok(rounded) => Ok(Some(rounded)),
            Err(_) => Err(AccountingError::SamplingRate(rate)),
        }
    }

    /// A multiplier that is computed from this number of terms, with its roundings on the side of the bound.
    fn less(&self, multiplier: f64, terms: usize) -> f64 {
        let error = ROUNDED * (terms as f64 + 8.0);
        multiplier * if self.bound == Bound::Upper { 1.0 - error } else { 1.0 + error }
    }

    fn gaussian(&mut self, rate: Rate, multiplier: f64, times: u64) -> Result<(), AccountingError> {
        let event = SampledGaussian::new(rate, multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))?;
        self.releases.gaussians.push((event, times));
        Ok(())
    }

    fn poisson(&mut self, rate: f64, of: &DpEvent, times: u64) -> Result<(), AccountingError> {
        let Some(rate) = self.rate(rate)? else { return Ok(()) };
        if let Some(multiplier) = self.one_gaussian(of)? {
            return self.gaussian(rate, multiplier, times);
        }
        let sampled =
            AccountingError::Unsupported { mechanism: "a Poisson draw of", of: of.name(), adjacency: self.adjacency };
        match of {
            DpEvent::NonPrivate => self.is_private = false,
            DpEvent::Compose(all) if all.iter().all(|(_, times)| *times == 0) => {}
            DpEvent::Laplace { .. } | DpEvent::DiscreteLaplace { .. } | DpEvent::DiscreteGaussian { .. }
                if self.adjacency != Adjacency::ReplaceOne =>
            {
                self.shape(of, rate, times)?;
            }
            _ => return Err(sampled),
        }
        Ok(())
    }

    /// The multiplier of all releases of one draw, if all are Gaussian.
    fn one_gaussian(&self, of: &DpEvent) -> Result<Option<f64>, AccountingError> {
        Ok(match of {
            DpEvent::Gaussian { multiplier } => Some(multiplied(*multiplier)?),
            DpEvent::Compose(_) => {
                precision(of)?.filter(|(sum, _)| *sum > 0.0).map(|(sum, terms)| self.less(1.0 / sum.sqrt(), terms))
            }
            _ => None,
        })
    }

    fn fixed(
        &mut self,
        mechanism: &DpEvent,
        (sample, population): (u64, u64),
        of: &DpEvent,
        times: u64,
    ) -> Result<(), AccountingError> {
        if population == 0 || sample > population || population > Rate::DENOMINATOR {
            return Err(AccountingError::Batch { batch: sample, samples: population });
        }
        if self.adjacency != Adjacency::ReplaceOne {
            return Err(AccountingError::Unsupported {
                mechanism: mechanism.name(),
                of: "",
                adjacency: self.adjacency,
            });
        }
        if sample == 0 {
            return Ok(());
        }
        let Some(multiplier) = self.one_gaussian(of)? else {
            return Err(AccountingError::Unsupported {
                mechanism: "a batch of fixed size for",
                of: of.name(),
                adjacency: self.adjacency,
            });
        };
        if sample == population {
            return self.gaussian(Rate::ONE, multiplier, times);
        }
        let below =
            Rate::of(sample, population).map_err(|_| AccountingError::Batch { batch: sample, samples: population })?;
        let rate = if self.bound == Bound::Upper { Rate::from_numerator(below.numerator() + 1) } else { Ok(below) };
        let rate = rate.unwrap_or(Rate::ONE);
        if rate.as_f64() < SMALLEST_RATE {
            return Err(AccountingError::SmallRate(rate.as_f64()));
        }
        // A replaced sample moves the sum by up to two clips, and so does another sample in its place.
        let part = Part::Fixed { multiplier: multiplier / 2.0, rate, direction: Direction::Remove };
        self.releases.parts.push((part, times));
        Ok(())
    }

    fn truncate(&mut self, population: u64, most: u64, rate: f64, times: u64) -> Result<(), AccountingError> {
        let rate = Rate::at_least(rate).map_err(|_| AccountingError::SamplingRate(rate))?;
        // A neighbour may have one record more.
        let samples = if self.adjacency == Adjacency::AddOrRemove { population.saturating_add(1) } else { population };
        let tail = mul_up(times as f64, Truncation { samples, most }.tail(rate));
        let (sum, _) = self.truncated.unwrap_or((0.0, most));
        self.truncated = Some((add_up(sum, tail).min(1.0), most));
        Ok(())
    }

    /// Steps in an order: a record that is added or removed would move the others.
    fn ordered(&self, mechanism: &DpEvent) -> Result<(), AccountingError> {
        if self.adjacency != Adjacency::AddOrRemove {
            return Ok(());
        }
        Err(AccountingError::Unsupported { mechanism: mechanism.name(), of: "", adjacency: self.adjacency })
    }

    fn diverge(&mut self, curve: Curve) {
        self.curve = Some(selection::sum(self.curve.as_ref().unwrap_or(&selection::NOTHING), &curve));
    }

    /// A release that is not Gaussian.
    fn shape(&mut self, mechanism: &DpEvent, rate: Rate, times: u64) -> Result<(), AccountingError> {
        let is_replaced = self.adjacency == Adjacency::ReplaceOne;
        let shape = match *mechanism {
            DpEvent::Laplace { multiplier } => {
                let scale = multiplied(multiplier)? / if is_replaced { 2.0 } else { 1.0 };
                let must_be = "at least 0.001, or 0.002 if a record is replaced";
                in_range("noise_multiplier", multiplier, scale * LARGEST_LOSS >= 1.0, must_be)?;
                Shape::Laplace { scale }
            }
            DpEvent::DiscreteLaplace { parameter, sensitivity } => {
                let shift = shift(sensitivity, is_replaced)?;
                let holds = parameter > 0.0 && parameter * f64::from(shift) <= LARGEST_LOSS;
                in_range("noise_parameter", parameter, holds, "above 0, and at most 1000 over the largest shift")?;
                Shape::DiscreteLaplace { parameter, shift }
            }
            DpEvent::DiscreteGaussian { sigma, sensitivity } => {
                in_range("sigma", sigma, sigma > 0.0, "a finite number above 0")?;
                if sigma > LARGEST_LISTED {
                    return self.large_discrete(sigma, sensitivity, rate, times);
                }
                let shift = shift(sensitivity, is_replaced)?;
                let holds = f64::from(shift) <= FARTHEST_SHIFT * sigma;
                in_range("sigma", sigma, holds, "at least a hundredth of the largest shift")?;
                Shape::DiscreteGaussian { sigma, shift }
            }
            DpEvent::RandomizedResponse { noise, buckets } => {
                let holds = noise == 0.0 || (LEAST_RESPONSE..=1.0).contains(&noise);
                in_range("noise_parameter", noise, holds, "0, or at least 1e-300 and at most 1")?;
                if self.adjacency == Adjacency::AddOrRemove {
                    let adjacency = self.adjacency;
                    return Err(AccountingError::Unsupported { mechanism: mechanism.name(), of: "", adjacency });
                }
                if buckets <= 1 || noise == 1.0 {
                    return Ok(());
                }
                if noise == 0.0 {
                    self.is_private = false;
                    return Ok(());
                }
                Shape::Response { noise, buckets, blank: !is_replaced }
            }
            DpEvent::Approximate { epsilon, delta } => {
                in_range("epsilon", epsilon, (0.0..=LARGEST_LOSS).contains(&epsilon), "at least 0 and at most 1000")?;
                in_range("delta", delta, (0.0..1.0).contains(&delta), "at least 0 and below 1")?;
                Shape::Approximate { epsilon, delta }
            }
            _ => unreachable!("{}", mechanism.name()),
        };
        self.releases.parts.push((Part::Drawn { shape, rate }, times));
        Ok(())
    }

    /// A discrete Gaussian of many points: the continuous Gaussian above it.
    fn large_discrete(&mut self, sigma: f64, sensitivity: u32, rate: Rate, times: u64) -> Result<(), AccountingError> {
        in_range("sensitivity", f64::from(sensitivity), sensitivity > 0, "at least 1")?;
        let multiplier = discrete::continuous(sigma / f64::from(sensitivity), sigma);
        let multiplier = next_down(multiplier.unwrap_or(sigma / f64::from(sensitivity)));
        self.is_above = true;
        self.gaussian(rate, multiplier, times)
    }

    /// The Rényi divergences of all releases.
    pub(super) fn divergences(&self) -> Result<Curve, AccountingError> {
        let unsupported =
            |of| AccountingError::Unsupported { mechanism: "the Renyi divergence of", of, adjacency: self.adjacency };
        if !self.is_private {
            return Ok(ORDERS.map(|_| f64::INFINITY));
        }
        if self.truncated.is_some() {
            return Err(unsupported("a truncated draw"));
        }
        let mut curve = RenyiCurve::EMPTY;
        for (event, times) in &self.releases.gaussians {
            let mut event = *event;
            if self.adjacency == Adjacency::ReplaceOne {
                if event.rate() != Rate::ONE {
                    return Err(unsupported("a Poisson draw"));
                }
                event = halved(&event)?;
            }
            curve.add(&event, *times);
        }
        let mut sum = *curve.divergences();
        for (part, times) in &self.releases.parts {
            let each = self.divergence(part).ok_or_else(|| unsupported("this release"))?;
            sum = selection::sum(&sum, &each.map(|one| mul_up(*times as f64, one)));
        }
        Ok(selection::sum(&sum, self.curve.as_ref().unwrap_or(&selection::NOTHING)))
    }

    /// The divergences of one part. `None` if they have no finite bound.
    fn divergence(&self, part: &Part) -> Option<Curve> {
        let Part::Drawn { shape, rate } = part else { return None };
        if let Shape::DiscreteGaussian { sigma, shift } = shape {
            // Those of the continuous Gaussian bound it (Canonne, Kamath and Steinke, arXiv 2004.00010, theorem 4).
            let ratio = div_up(f64::from(*shift), *sigma);
            let square = mul_up(ratio, ratio) / 2.0;
            return (*rate == Rate::ONE).then(|| ORDERS.map(|order| mul_up(order, square)));
        }
        let curve = shape.divergences(*rate, &ORDERS);
        curve.iter().all(|one| one.is_finite()).then_some(curve)
    }
}

/// The Gaussian with twice the shift.
pub(super) fn halved(event: &SampledGaussian) -> Result<SampledGaussian, AccountingError> {
    let multiplier = event.multiplier() / 2.0;
    SampledGaussian::new(event.rate(), multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))
}

/// The sum of the inverse variances, and its number of terms. `None` if a release is not Gaussian.
fn precision(of: &DpEvent) -> Result<Option<(f64, usize)>, AccountingError> {
    match of {
        DpEvent::Gaussian { multiplier } => {
            let one = 1.0 / multiplied(*multiplier)?;
            Ok(Some((one * one, 1)))
        }
        DpEvent::Compose(all) => {
            let mut sum = Some((0.0, 0));
            for (one, times) in all.iter().filter(|(_, times)| *times > 0) {
                let next = precision(one)?;
                sum = sum.zip(next).map(|((sum, terms), (one, more))| (sum + one * *times as f64, terms + more));
            }
            Ok(sum)
        }
        _ => Ok(None),
    }
}

/// The largest shift of a discrete release.
fn shift(sensitivity: u32, is_replaced: bool) -> Result<u32, AccountingError> {
    let most = if is_replaced { LARGEST_SHIFT / 2 } else { LARGEST_SHIFT };
    in_range("sensitivity", f64::from(sensitivity), (1..=most).contains(&sensitivity), "from 1 to 32768")?;
    Ok(if is_replaced { 2 * sensitivity } else { sensitivity })
}

/// A number of releases.
fn product(times: u64, each: u64) -> Result<u64, AccountingError> {
    times.checked_mul(each).filter(|all| *all <= MOST_RELEASES).ok_or(AccountingError::Releases)
}

fn multiplied(multiplier: f64) -> Result<f64, AccountingError> {
    if multiplier > 0.0 && multiplier.is_finite() {
        Ok(multiplier)
    } else {
        Err(AccountingError::NoiseMultiplier(multiplier))
    }
}

fn in_range(name: &'static str, value: f64, holds: bool, must_be: &'static str) -> Result<(), AccountingError> {
    if holds && value.is_finite() { Ok(()) } else { Err(AccountingError::Range { name, value, must_be }) }
}
