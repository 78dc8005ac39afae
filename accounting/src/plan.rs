//! Privacy cost of a run whose steps have different noise: a noise schedule, or a second release next to the gradient.
//!
//! A divergence takes microseconds at each of a hundred orders, which is too slow for every step of a schedule. The
//! accountant computes the cost of a few multipliers of the plan, its *knots*. A step between two knots costs the value
//! of the chord between their costs, as a function of the precision `x = 1/σ²`.
//!
//! # The chord is an upper bound
//!
//! The Rényi divergence of the Poisson-subsampled Gaussian is convex in x at every order α > 1. The likelihood ratio at
//! precision x is `M_x = exp(B_x − x/2)`, B a Brownian motion, so `A(x) = E[f(M_x)]` with `f(M) = s^α`,
//! `s = 1 − q + qM`, and `A' = E[Gf]`, `A'' = E[G²f]` with the generator `G = ½M²∂²`. With `t = qM/s`, which lies in
//! [0, 1],
//!
//! ```text
//! Gf  = ½ α(α−1) t² s^α
//! G²f = ¼ α(α−1) t² s^α (2 + 4(α−2)t + (α−2)(α−3)t²)
//! G²f − (Gf)²/f = ¼ α(α−1) t² s^α (1−t)(2 + (4α−6)t)  ≥  0
//! ```
//!
//! and by Cauchy and Schwarz `A'² = E[√f · Gf/√f]² ≤ E[f] E[(Gf)²/f] ≤ A·A''`, so `ln A` is convex. (At integer orders
//! it is a logarithm of a sum of exponentials of x.) Let λ be the positions of n steps on the chord between two knots.
//! Then the n steps cost at most as much as `⌈Σλ⌉` steps at the lower knot and the others at the upper knot.
//!
//! By the same convexity an uneven schedule costs more than a constant multiplier of equal `Σ 1/σ²`.

use super::delta::check_delta;
use super::{Accountant, AccountingError, EpsilonBound, smaller};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::least_epsilon;

/// The approximate number of knots, at equal distances of `1/σ`. The curvature of the cost falls with the precision, so
/// each distance adds a similar relative error. On ADP's schedules ε is less than a thousandth above the value with
/// every step computed separately.
const KNOTS: f64 = 192.0;
/// A larger multiplier is accounted as this multiplier.
pub(super) const LARGEST: f64 = 1e12;
/// The unit of a position on the chord. Sums of positions are exact.
const WHOLE: u64 = 1 << 32;

/// A declared run: the number of draws and their noise. It is built before data is read, and accounted as a whole.
///
/// ```
/// use damper_accounting::{Accountant, Plan, sampling_rate};
///
/// let rate = sampling_rate(0.01)?;
/// let plan = Plan::constant(rate, 1.1, None, 1000)?;
/// assert!((1.51..1.52).contains(&plan.epsilon(Accountant::Pld, 1e-5)?.epsilon));
/// assert_eq!((plan.steps(), plan.smallest_multiplier(), plan.events().len()), (1000, 1.1, 1));
/// // A noise schedule, and a release before the first draw.
/// let other = Plan::new(rate, (0..100).map(|step| 1.0 + f64::from(step) / 100.0), None)?;
/// assert_eq!((other.steps(), other.with_release(None).smallest_multiplier()), (100, 1.0));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    knots: Vec<Knot>,
    /// The events and their multiplicities.
    events: Vec<(SampledGaussian, u64)>,
    /// A separate release before the first draw, or several as one event.
    release: Option<SampledGaussian>,
}

/// A multiplier with a computed cost, and the steps from it up to the next knot.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    event: SampledGaussian,
    /// Steps at this multiplier.
    at: u64,
    /// Steps between this multiplier and the next.
    between: u64,
    /// The number of the steps between that this knot accounts for, in units of `1/WHOLE`.
    place: u128,
}

impl Knot {
    fn new(event: SampledGaussian, at: u64) -> Self {
        Self { event, at, between: 0, place: 0 }
    }
}

/// The number of steps that each knot accounts for.
fn counts(knots: &[Knot]) -> Vec<(SampledGaussian, u64)> {
    let mut above = 0;
    knots
        .iter()
        .map(|knot| {
            let below = (knot.place.div_ceil(u128::from(WHOLE)) as u64).min(knot.between);
            let count = above + knot.at + below;
            above = knot.between - below;
            (knot.event, count)
        })
        .collect()
}

/// Counts one step. Returns false if its multiplier is below every knot's.
fn count(knots: &mut [Knot], multiplier: f64) -> bool {
    let after = knots.partition_point(|knot| knot.event.multiplier() <= multiplier);
    let next = knots.get(after).map(|knot| knot.event.multiplier());
    let Some(knot) = after.checked_sub(1).and_then(|at| knots.get_mut(at)) else { return false };
    let low = knot.event.multiplier();
    match next {
        Some(high) if multiplier > low => {
            knot.between += 1;
            knot.place += u128::from(place(low, multiplier, high));
        }
        _ => knot.at += 1,
    }
    true
}

/// λ with `1/σ² = λ/low² + (1−λ)/high²`, rounded up, in units of `1/WHOLE`.
fn place(low: f64, multiplier: f64, high: f64) -> u64 {
    let over = |sigma: f64| (high / sigma) * (high / sigma) - 1.0;
    let share = over(multiplier) / over(low);
    // For knots this close, differences of squares lose too many digits.
    if share < 1.0 && high > low * (1.0 + 1e-6) {
        // Rounding above is below two units.
        ((share * WHOLE as f64) as u64 + 4).min(WHOLE)
    } else {
        WHOLE
    }
}

impl Plan {
    /// `steps` draws at `rate`, all with a noise of `multiplier` clips. If `joint` is given, each draw has a further
    /// release of that multiplier (a histogram of norms), and both are one event.
    pub fn constant(rate: Rate, multiplier: f64, joint: Option<f64>, steps: u64) -> Result<Self, AccountingError> {
        let event = event(rate, multiplier, joint)?;
        if steps == 0 {
            return Err(AccountingError::Steps);
        }
        Ok(Self { knots: vec![Knot::new(event, steps)], events: vec![(event, steps)], release: None })
    }

    /// One draw at `rate` for each of `multipliers`. `joint` is as in [`Plan::constant`].
    pub fn new(
        rate: Rate,
        multipliers: impl IntoIterator<Item = f64>,
        joint: Option<f64>,
    ) -> Result<Self, AccountingError> {
        let capped = |multiplier| if multiplier > LARGEST { LARGEST } else { multiplier };
        let events = multipliers.into_iter().map(|multiplier| event(rate, capped(multiplier), joint));
        let mut events = events.collect::<Result<Vec<_>, _>>()?;
        events.sort_unstable_by(|a, b| a.multiplier().total_cmp(&b.multiplier()));
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Err(AccountingError::Steps) };
        // The largest multiplier that belongs to a knot.
        let distance = 1.0 / (KNOTS * first.multiplier());
        let reach = |knot: f64| if 1.0 / knot > distance { 1.0 / (1.0 / knot - distance) } else { f64::INFINITY };

        // A knot is the largest multiplier of the plan within reach of the last knot, or else the next multiplier.
        let mut knots = vec![Knot::new(*first, 0)];
        let (mut knot, mut before) = (first.multiplier(), *first);
        for event in &events {
            if event.multiplier() > reach(knot) && before.multiplier() > knot {
                knot = before.multiplier();
                knots.push(Knot::new(before, 0));
            }
            if event.multiplier() > reach(knot) {
                knot = event.multiplier();
                knots.push(Knot::new(*event, 0));
            }
            before = *event;
        }
        if last.multiplier() > knot {
            knots.push(Knot::new(*last, 0));
        }
        let mut counted: Vec<(SampledGaussian, u64)> = Vec::new();
        for event in &events {
            count(&mut knots, event.multiplier());
            tally(&mut counted, event);
        }
        Ok(Self { knots, events: counted, release: None })
    }

    /// This plan with a separate release before the first draw, such as the features' means and deviations. Several
    /// releases are passed as one event (`SampledGaussian::and`).
    #[must_use]
    pub fn with_release(self, release: Option<SampledGaussian>) -> Self {
        Self { release, ..self }
    }

    /// A few events with Rényi divergences of at least those of this plan.
    pub(super) fn knots(&self) -> Vec<(SampledGaussian, u64)> {
        with(self.release, &counts(&self.knots))
    }

    /// The number of draws.
    pub fn steps(&self) -> u64 {
        self.knots.iter().map(|knot| knot.at + knot.between).sum()
    }

    /// The smallest multiplier of a draw, with all its releases combined.
    pub fn smallest_multiplier(&self) -> f64 {
        self.knots.first().map_or(0.0, |knot| knot.event.multiplier())
    }

    /// The events, and the number of draws of each.
    #[must_use]
    pub fn events(&self) -> &[(SampledGaussian, u64)] {
        &self.events
    }

    /// ε at `delta`, rounded up. Fails if no finite ε holds.
    pub fn epsilon(&self, accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
        let priced = self.price(accountant, delta)?;
        if priced.epsilon.is_finite() {
            return Ok(priced);
        }
        Err(AccountingError::NothingHolds { multiplier: self.smallest_multiplier(), steps: self.steps() })
    }

    /// ε, which may be infinite.
    pub(super) fn price(&self, accountant: Accountant, delta: f64) -> Result<EpsilonBound, AccountingError> {
        check_delta(delta)?;
        match accountant {
            Accountant::Rdp => least_epsilon(&self.knots(), delta)
                .map(|found| EpsilonBound { epsilon: found.epsilon, order: Some(found.order) })
                .map_err(|_| AccountingError::Delta(delta)),
            Accountant::Pld => smaller::price(&with(self.release, &self.events), || Some(self.knots()), delta),
        }
    }

    /// The privacy cost of this plan at `delta`, step by step. Initially it covers only the release before the first
    /// draw.
    pub fn spent(&self, accountant: Accountant, delta: f64) -> Result<Spent, AccountingError> {
        Ok(Spent {
            knots: self.knots.iter().map(|knot| Knot::new(knot.event, 0)).collect(),
            accountant,
            most: self.price(accountant, delta)?.epsilon,
            taken: Vec::new(),
            release: self.release,
            delta,
            unplanned: false,
        })
    }
}

/// ε of the steps of a [`Plan`] taken so far.
///
/// ```
/// use damper_accounting::{Accountant, Plan, sampling_rate};
///
/// let plan = Plan::constant(sampling_rate(0.01)?, 1.1, None, 1000)?;
/// let mut spent = plan.spent(Accountant::Pld, 1e-5)?;
/// assert_eq!(spent.least_epsilon(), 0.0);
/// let (step, _) = plan.events()[0];
/// (0..100).for_each(|_| spent.count(&step));
/// assert_eq!(spent.events(), [(step, 100)]);
/// assert!(spent.least_epsilon() < plan.epsilon(Accountant::Pld, 1e-5)?.epsilon);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Spent {
    knots: Vec<Knot>,
    accountant: Accountant,
    /// The whole plan's ε.
    most: f64,
    /// The exact events of the steps.
    taken: Vec<(SampledGaussian, u64)>,
    release: Option<SampledGaussian>,
    delta: f64,
    unplanned: bool,
}

impl Spent {
    /// Counts one step with its event. A step below every multiplier of the plan has no privacy cost: ε is infinite
    /// from then on.
    pub fn count(&mut self, event: &SampledGaussian) {
        let planned = self.knots.first().is_some_and(|knot| knot.event.rate() == event.rate());
        self.unplanned |= !(planned && count(&mut self.knots, event.multiplier()));
        tally(&mut self.taken, event);
    }

    /// The counted steps: each event and its number of steps.
    #[must_use]
    pub fn events(&self) -> &[(SampledGaussian, u64)] {
        &self.taken
    }

    /// ε of the counted steps, as tight as a plan of these steps alone. It takes some tens of milliseconds, and up to
    /// two seconds for thousands of different steps.
    pub fn least_epsilon(&self) -> f64 {
        if self.unplanned {
            return f64::INFINITY;
        }
        let steps = self.taken.iter().map(|(_, times)| times).sum::<u64>();
        if steps == 0 && self.release.is_none() {
            return 0.0;
        }
        let knots = || with(self.release, &counts(&self.knots));
        let priced = match self.accountant {
            Accountant::Rdp => least_epsilon(&knots(), self.delta).map_or(f64::INFINITY, |priced| priced.epsilon),
            Accountant::Pld => smaller::price(&with(self.release, &self.taken), || Some(knots()), self.delta)
                .map_or(f64::INFINITY, |priced| priced.epsilon),
        };
        priced.min(self.most)
    }
}

/// A release before the first draw, and the draws.
pub(super) fn with(release: Option<SampledGaussian>, draws: &[(SampledGaussian, u64)]) -> Vec<(SampledGaussian, u64)> {
    release.map(|event| (event, 1)).into_iter().chain(draws.iter().copied()).collect()
}

/// Merges an event with the last event if they are equal.
fn tally(events: &mut Vec<(SampledGaussian, u64)>, event: &SampledGaussian) {
    match events.last_mut() {
        Some((last, times)) if last == event => *times += 1,
        _ => events.push((*event, 1)),
    }
}

/// One draw with all its releases.
fn event(rate: Rate, multiplier: f64, joint: Option<f64>) -> Result<SampledGaussian, AccountingError> {
    if rate == Rate::ZERO {
        return Err(AccountingError::SamplingRate(0.0));
    }
    let event = SampledGaussian::new(rate, multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))?;
    match joint {
        None => Ok(event),
        Some(joint) => event.and(joint).map_err(|_| AccountingError::CountNoise(joint)),
    }
}

/// ε at `delta` of `steps` draws at `rate` with a noise of `multiplier` clips, rounded up.
///
/// ```
/// use damper_accounting::{Accountant, epsilon, sampling_rate};
///
/// let bound = epsilon(Accountant::Pld, 1.1, sampling_rate(0.01)?, 1000, 1e-5)?;
/// assert!((1.51..1.52).contains(&bound.epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn epsilon(
    accountant: Accountant,
    multiplier: f64,
    rate: Rate,
    steps: u64,
    delta: f64,
) -> Result<EpsilonBound, AccountingError> {
    Plan::constant(rate, multiplier, None, steps)?.epsilon(accountant, delta)
}

#[cfg(test)]
mod tests;
