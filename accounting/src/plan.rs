//! The price of a run whose steps have noise of different sizes: a noise schedule, or a second release beside the gradient.
//!
//! A divergence takes microseconds at each of a hundred orders, too long for every step of a schedule. A few multipliers
//! of the plan are priced, its *knots*; a step between two knots is priced on the chord between their prices, as a
//! function of the precision `x = 1/σ²`.
//!
//! # Why the chord lies above
//!
//! The Rényi divergence of the Poisson-subsampled Gaussian is convex in x at every order α > 1. The likelihood ratio at
//! precision x is `M_x = exp(B_x − x/2)`, B a Brownian motion, so `A(x) = E[f(M_x)]` with `f(M) = s^α`, `s = 1 − q + qM`,
//! and `A' = E[Gf]`, `A'' = E[G²f]` with the generator `G = ½M²∂²`. With `t = qM/s`, which lies in [0, 1],
//!
//! ```text
//! Gf  = ½ α(α−1) t² s^α
//! G²f = ¼ α(α−1) t² s^α (2 + 4(α−2)t + (α−2)(α−3)t²)
//! G²f − (Gf)²/f = ¼ α(α−1) t² s^α (1−t)(2 + (4α−6)t)  ≥  0
//! ```
//!
//! and by Cauchy and Schwarz `A'² = E[√f · Gf/√f]² ≤ E[f] E[(Gf)²/f] ≤ A·A''`: `ln A` is convex. (At integer orders it is
//! a logarithm of a sum of exponentials of x.) So n steps between two knots cost at most what `⌈Σλ⌉` steps at the lower
//! and the others at the upper knot cost, λ the steps' places on the chord.
//!
//! The same convexity makes an uneven schedule cost more than a constant multiplier of equal `Σ 1/σ²`.

use super::delta::check_delta;
use super::{Accountant, AccountingError, EpsilonBound, smaller};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::least_epsilon;

/// Knots are about so many, at equal distances of `1/σ`: as the curvature of a price falls with the precision, each
/// distance then costs about the same share of it. On ADP's schedules ε is less than a thousandth above that of every step
/// priced alone.
const KNOTS: f64 = 192.0;
/// A larger multiplier is priced as this one.
pub(super) const LARGEST: f64 = 1e12;
/// The unit of a place on the chord: sums of places are exact.
const WHOLE: u64 = 1 << 32;

/// A declared run: how many draws with which noise. Built before data is read, priced as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    knots: Vec<Knot>,
    /// The events as they are, and how often.
    events: Vec<(SampledGaussian, u64)>,
    /// A release of its own before the first draw, or several as one event.
    release: Option<SampledGaussian>,
}

/// A multiplier that is priced, and the steps from it up to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    event: SampledGaussian,
    /// Steps at this multiplier.
    at: u64,
    /// Steps between this multiplier and the next.
    between: u64,
    /// The number of those that this knot accounts for, in units of `1/WHOLE`.
    place: u128,
}

impl Knot {
    fn new(event: SampledGaussian, at: u64) -> Self {
        Self { event, at, between: 0, place: 0 }
    }
}

/// Steps as knots price them: each knot's number.
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

/// Counts one step; `false` where its multiplier is below every knot's.
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
    // Between knots so close, differences of squares would keep too few digits.
    if share < 1.0 && high > low * (1.0 + 1e-6) {
        // Rounding above is below two units.
        ((share * WHOLE as f64) as u64 + 4).min(WHOLE)
    } else {
        WHOLE
    }
}

impl Plan {
    /// `steps` draws at `rate`, all with noise `multiplier` times the clip. Where `joint` is given, each draw has a further
    /// release of that multiplier (a histogram of norms), and the two are one event.
    pub fn constant(rate: Rate, multiplier: f64, joint: Option<f64>, steps: u64) -> Result<Self, AccountingError> {
        let event = event(rate, multiplier, joint)?;
        if steps == 0 {
            return Err(AccountingError::Steps);
        }
        Ok(Self { knots: vec![Knot::new(event, steps)], events: vec![(event, steps)], release: None })
    }

    /// One draw at `rate` for each of `multipliers`; `joint` as in [`Plan::constant`].
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
        // From a knot, the multipliers up to here belong to it.
        let distance = 1.0 / (KNOTS * first.multiplier());
        let reach = |knot: f64| if 1.0 / knot > distance { 1.0 / (1.0 / knot - distance) } else { f64::INFINITY };

        // A knot is the largest multiplier of the plan within reach of the last, or else the next one.
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

    /// This plan with a release of its own before the first draw, such as of the features' means and deviations; or several as one event
    /// (`SampledGaussian::and`).
    #[must_use]
    pub fn with_release(self, release: Option<SampledGaussian>) -> Self {
        Self { release, ..self }
    }

    /// Few events that cost at least as much in Rényi divergences.
    pub(super) fn knots(&self) -> Vec<(SampledGaussian, u64)> {
        with(self.release, &counts(&self.knots))
    }

    /// The number of draws.
    pub fn steps(&self) -> u64 {
        self.knots.iter().map(|knot| knot.at + knot.between).sum()
    }

    /// The smallest multiplier of a draw, all its releases together.
    pub fn smallest_multiplier(&self) -> f64 {
        self.knots.first().map_or(0.0, |knot| knot.event.multiplier())
    }

    /// The events, and how often each is drawn.
    #[must_use]
    pub fn events(&self) -> &[(SampledGaussian, u64)] {
        &self.events
    }

    /// ε at `delta`, rounded up. An error where no finite ε holds.
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

    /// The privacy cost of this plan at `delta`, step by step; nothing yet but the release before the first.
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
#[derive(Clone, Debug)]
pub struct Spent {
    knots: Vec<Knot>,
    accountant: Accountant,
    /// The whole plan's ε.
    most: f64,
    /// The steps as they were.
    taken: Vec<(SampledGaussian, u64)>,
    release: Option<SampledGaussian>,
    delta: f64,
    unplanned: bool,
}

impl Spent {
    /// Counts one step, the event that it was. A step below every multiplier of the plan has no price: from then on ε is
    /// infinite.
    pub fn count(&mut self, event: &SampledGaussian) {
        let planned = self.knots.first().is_some_and(|knot| knot.event.rate() == event.rate());
        self.unplanned |= !(planned && count(&mut self.knots, event.multiplier()));
        tally(&mut self.taken, event);
    }

    /// The steps counted: each event and how often it came.
    #[must_use]
    pub fn events(&self) -> &[(SampledGaussian, u64)] {
        &self.taken
    }

    /// ε of the steps counted, as tight as a plan of them alone; some tens of milliseconds, up to a second or two for thousands of
    /// different steps.
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

/// Counts an event with the last one, where they are equal.
fn tally(events: &mut Vec<(SampledGaussian, u64)>, event: &SampledGaussian) {
    match events.last_mut() {
        Some((last, times)) if last == event => *times += 1,
        _ => events.push((*event, 1)),
    }
}

/// One draw with everything released from it.
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

/// ε at `delta` of `steps` draws at `rate` with noise `multiplier` times the clip, rounded up.
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
