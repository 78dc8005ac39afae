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
use damper_core::accounting::event::{Event, Rate};
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
    events: Vec<(Event, u64)>,
    /// A release of its own before the first draw, or several as one event.
    release: Option<Event>,
}

/// A multiplier that is priced, and the steps from it up to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    event: Event,
    /// Steps at this multiplier.
    at: u64,
    /// Steps between this multiplier and the next.
    between: u64,
    /// The number of those that this knot accounts for, in units of `1/WHOLE`.
    place: u128,
}

impl Knot {
    fn new(event: Event, at: u64) -> Self {
        Self { event, at, between: 0, place: 0 }
    }
}

/// Steps as knots price them: each knot's number.
fn counts(knots: &[Knot]) -> Vec<(Event, u64)> {
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
        let mut counted: Vec<(Event, u64)> = Vec::new();
        for event in &events {
            count(&mut knots, event.multiplier());
            tally(&mut counted, event);
        }
        Ok(Self { knots, events: counted, release: None })
    }

    /// This plan with a release of its own before the first draw, such as of the features' means and deviations; or several as one event
    /// (`Event::and`).
    #[must_use]
    pub fn with_release(self, release: Option<Event>) -> Self {
        Self { release, ..self }
    }

    /// Few events that cost at least as much in Rényi divergences.
    pub(super) fn knots(&self) -> Vec<(Event, u64)> {
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
    pub fn events(&self) -> &[(Event, u64)] {
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
    taken: Vec<(Event, u64)>,
    release: Option<Event>,
    delta: f64,
    unplanned: bool,
}

impl Spent {
    /// Counts one step, the event that it was. A step below every multiplier of the plan has no price: from then on ε is
    /// infinite.
    pub fn count(&mut self, event: &Event) {
        let planned = self.knots.first().is_some_and(|knot| knot.event.rate() == event.rate());
        self.unplanned |= !(planned && count(&mut self.knots, event.multiplier()));
        tally(&mut self.taken, event);
    }

    /// The steps counted: each event and how often it came.
    #[must_use]
    pub fn events(&self) -> &[(Event, u64)] {
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
pub(super) fn with(release: Option<Event>, draws: &[(Event, u64)]) -> Vec<(Event, u64)> {
    release.map(|event| (event, 1)).into_iter().chain(draws.iter().copied()).collect()
}

/// Counts an event with the last one, where they are equal.
fn tally(events: &mut Vec<(Event, u64)>, event: &Event) {
    match events.last_mut() {
        Some((last, times)) if last == event => *times += 1,
        _ => events.push((*event, 1)),
    }
}

/// One draw with everything released from it.
fn event(rate: Rate, multiplier: f64, joint: Option<f64>) -> Result<Event, AccountingError> {
    if rate == Rate::ZERO {
        return Err(AccountingError::SamplingRate(0.0));
    }
    let event = Event::new(rate, multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))?;
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
mod tests {
    use super::*;
    use damper_core::accounting::renyi::{ORDERS, divergence};
    use proptest::prelude::*;

    const STEPS: u64 = 11_760;
    const DELTA: f64 = 1e-5;

    fn cifar() -> Rate {
        Rate::of(256, 50_000).unwrap()
    }

    /// The multiplier of a constant schedule with the same `Σ 1/σ²`.
    fn constant_of(multipliers: &[f64]) -> f64 {
        let precision = multipliers.iter().map(|z| 1.0 / (z * z)).sum::<f64>() / multipliers.len() as f64;
        1.0 / precision.sqrt()
    }

    /// `α² = √(20 + t)`, scaled to the constant multiplier of the same `Σ 1/σ²`.
    fn polynomial(constant: f64, steps: u64) -> Vec<f64> {
        let factors: Vec<f64> = (1..=steps).map(|t| (20.0 + t as f64).powf(0.25)).collect();
        let scale = constant / constant_of(&factors);
        factors.iter().map(|factor| factor * scale).collect()
    }

    fn plan(rate: Rate, multipliers: &[f64]) -> Plan {
        Plan::new(rate, multipliers.iter().copied(), None).unwrap()
    }

    fn epsilon(rate: Rate, multipliers: &[f64]) -> f64 {
        plan(rate, multipliers).price(Accountant::Rdp, DELTA).unwrap().epsilon
    }

    /// Every step priced alone.
    fn stepwise(rate: Rate, multipliers: &[f64]) -> f64 {
        let events: Vec<_> = multipliers.iter().map(|z| (Event::new(rate, *z).unwrap(), 1)).collect();
        least_epsilon(&events, DELTA).unwrap().epsilon
    }

    // A constant schedule costs exactly the epsilon of its multiplier.
    #[test]
    fn constant_schedule_costs_its_multiplier() {
        for multiplier in [0.36, 1.27, 8.0] {
            let listed = plan(cifar(), &[multiplier; 900]);
            assert_eq!(listed, Plan::constant(cifar(), multiplier, None, 900).unwrap());
            let event = Event::new(cifar(), multiplier).unwrap();
            let priced = listed.price(Accountant::Rdp, DELTA).unwrap();
            let alone = least_epsilon(&[(event, 900)], DELTA).unwrap();
            assert_eq!((priced.epsilon, priced.order), (alone.epsilon, Some(alone.order)));
        }
        // Few different multipliers are all knots.
        let stairs: Vec<f64> = (0..900).map(|t| 1.0 + f64::from(t / 100)).collect();
        let ours = epsilon(cifar(), &stairs);
        assert!(ours <= stepwise(cifar(), &stairs));
        assert!((ours / stepwise(cifar(), &stairs) - 1.0).abs() < 1e-9);
    }

    // Without sampling, the cost depends only on the sum of inverse noise variances.
    #[test]
    fn unsampled_cost_needs_sum_of_precisions() {
        for multipliers in [polynomial(30.0, 500), vec![10.0, 20.0, 40.0], (1..90).map(f64::from).collect()] {
            let constant = constant_of(&multipliers);
            let steps = multipliers.len() as u64;
            let uneven = counts(&plan(Rate::ONE, &multipliers).knots);
            assert_eq!(uneven.iter().map(|(_, times)| times).sum::<u64>(), steps);
            let even = Event::new(Rate::ONE, constant).unwrap();
            for order in ORDERS {
                let ours: f64 = uneven.iter().map(|(event, times)| *times as f64 * divergence(event, order)).sum();
                // Exact but for the whole steps that knots' shares are rounded up to.
                let constant = steps as f64 * divergence(&even, order);
                assert!(ours >= constant * (1.0 - 1e-12) && ours < constant * 1.01, "{order}: {ours} {constant}");
                let alone: f64 =
                    multipliers.iter().map(|z| divergence(&Event::new(Rate::ONE, *z).unwrap(), order)).sum();
                assert!((alone / constant - 1.0).abs() < 1e-9);
            }
        }
    }

    // An uneven schedule costs more than a constant one of equal precision, unless the noise is large.
    #[test]
    fn uneven_schedule_costs_more_than_even() {
        // An outside implementation, every step priced alone, gives 9.83 and 2.28 for 10.19/8: the published eight-fold ε.
        let mut least = f64::INFINITY;
        for (constant, uneven, even) in
            [(10.19 / 8.0, 9.83, 2.28), (10.19 / 4.0, 1.92, 0.917), (10.19 / 2.0, 0.491, 0.417)]
        {
            let multipliers = polynomial(constant, STEPS);
            let ours = epsilon(cifar(), &multipliers);
            let flat =
                Plan::constant(cifar(), constant, None, STEPS).unwrap().price(Accountant::Rdp, DELTA).unwrap().epsilon;
            assert!((ours / uneven - 1.0).abs() < 0.02, "{ours} {uneven}");
            assert!((flat / even - 1.0).abs() < 0.01, "{flat} {even}");
            assert!(ours / flat < least);
            least = ours / flat;
        }
        let (large, constant) = (polynomial(200.0, STEPS), Plan::constant(cifar(), 200.0, None, STEPS).unwrap());
        let ratio = epsilon(cifar(), &large) / constant.price(Accountant::Rdp, DELTA).unwrap().epsilon;
        assert!((1.0..1.0005).contains(&ratio), "{ratio}");
    }

    // The cost from knots is at least the cost of the single steps, and less than 0.1 % above it.
    #[test]
    fn knots_bound_per_step_cost_closely() {
        for constant in [10.19 / 8.0, 10.19] {
            let multipliers = polynomial(constant, 3000);
            let (ours, exact) = (epsilon(cifar(), &multipliers), stepwise(cifar(), &multipliers));
            assert!(ours >= exact * (1.0 - 1e-5) && ours < exact * 1.001, "{ours} {exact}");
        }
    }

    /// `1/σ² = λ/low² + (1 - λ)/high²`, and no less.
    #[test]
    fn a_place_is_the_share_of_the_precision() {
        for (low, multiplier, high) in
            [(1.0f64, 1.5f64, 2.0f64), (0.3, 0.301, 0.4), (5.0, 5.9999, 6.0), (1.0, 1.00005, 1.0001)]
        {
            let precision = |sigma: f64| 1.0 / (sigma * sigma);
            let share = (precision(multiplier) - precision(high)) / (precision(low) - precision(high));
            let exact = share * WHOLE as f64;
            let found = place(low, multiplier, high) as f64;
            // A difference of squares so close keeps fewer digits.
            assert!(found >= exact && found <= exact + 1e4, "{low} {multiplier}: {found} {exact}");
        }
        assert_eq!((place(1.0, 1.0, 2.0), place(1.0, 1.0 + 1e-9, 1.0 + 1e-8)), (WHOLE, WHOLE));
    }

    #[test]
    fn events_of_a_plan_are_counted_as_they_are() {
        let at = |multiplier| Event::new(cifar(), multiplier).unwrap();
        let found = plan(cifar(), &[2.0, 1.0, 3.0, 2.0, 1.0, 2.0]);
        assert_eq!(found.events(), [(at(1.0), 2), (at(2.0), 3), (at(3.0), 1)]);
        assert_eq!((found.steps(), found.smallest_multiplier()), (6, 1.0));
        let mut spent = found.spent(Accountant::Rdp, DELTA).unwrap();
        for multiplier in [2.0, 2.0, 1.0] {
            spent.count(&at(multiplier));
        }
        assert_eq!(spent.events(), [(at(2.0), 2), (at(1.0), 1)]);
    }

    // A schedule with noise that grows without bound has a finite epsilon.
    #[test]
    fn unbounded_noise_has_finite_epsilon() {
        // Step sizes linear in √t: α² = 1/η grows from 10 to 1e10.
        let eta = |t: u64| 0.1 - (0.1 - 1e-10) * (t as f64 / STEPS as f64).sqrt();
        let multipliers: Vec<f64> = (1..=STEPS).map(|t| 0.3 / eta(t).sqrt()).collect();
        let all = epsilon(cifar(), &multipliers);
        let most = epsilon(cifar(), &multipliers[..STEPS as usize - 1]);
        assert!(all.is_finite() && all >= most && all < most * 1.0001, "{all} {most}");
        let endless = plan(cifar(), &[1.0, 1e300, f64::MAX]).price(Accountant::Rdp, DELTA).unwrap().epsilon;
        let once = plan(cifar(), &[1.0]).price(Accountant::Rdp, DELTA).unwrap().epsilon;
        assert!(endless >= once && endless < once * 1.0001, "{endless} {once}");
        assert!(epsilon(cifar(), &[1e-300, 1.0, 1e300]).is_infinite());
        for bad in [f64::NAN, 0.0, -1.0] {
            let error = Plan::new(cifar(), [1.0, bad], None).unwrap_err();
            assert!(matches!(error, AccountingError::NoiseMultiplier(_)));
        }
    }

    // Joint releases of one batch cost the same as one release with the summed inverse variances.
    #[test]
    fn joint_release_costs_summed_precision() {
        for (total, count) in [(0.966f64, 5.0f64), (0.8, 1.5), (2.0, 12.0)] {
            let gradient = (1.0 / (total * total) - 1.0 / (count * count)).powf(-0.5);
            let joint = Plan::constant(cifar(), gradient, Some(count), STEPS).unwrap();
            let single = Plan::constant(cifar(), total, None, STEPS).unwrap();
            let (joint_event, single_event) = (joint.knots[0].event, single.knots[0].event);
            for order in ORDERS {
                let (ours, theirs) = (divergence(&joint_event, order), divergence(&single_event, order));
                assert!((ours / theirs - 1.0).abs() < 1e-10, "{order}: {ours} {theirs}");
            }
            let (ours, theirs) = (
                joint.price(Accountant::Rdp, DELTA).unwrap().epsilon,
                single.price(Accountant::Rdp, DELTA).unwrap().epsilon,
            );
            assert!((ours / theirs - 1.0).abs() < 1e-10, "{ours} {theirs}");
            assert_eq!(
                Plan::new(cifar(), [gradient; 3], Some(count)).unwrap().smallest_multiplier(),
                joint_event.multiplier()
            );
        }
    }

    #[test]
    fn what_is_spent_grows_to_the_plans_epsilon() {
        for (multipliers, joint) in
            [(polynomial(1.3, 3000), None), (vec![1.1; 700], None), (polynomial(2.0, 800), Some(5.0))]
        {
            let plan = Plan::new(cifar(), multipliers.iter().copied(), joint).unwrap();
            let mut spent = plan.spent(Accountant::Rdp, DELTA).unwrap();
            assert_eq!(spent.least_epsilon(), 0.0);
            let half = multipliers.len() / 2;
            for (done, multiplier) in (1..).zip(&multipliers) {
                spent.count(&event(cifar(), *multiplier, joint).unwrap());
                if done == half {
                    let exact = Plan::new(cifar(), multipliers[..done].iter().copied(), joint).unwrap();
                    let exact = exact.price(Accountant::Rdp, DELTA).unwrap().epsilon;
                    assert!(spent.least_epsilon() < exact * 1.001 && spent.least_epsilon() > exact * 0.999);
                }
            }
            let whole = plan.epsilon(Accountant::Rdp, DELTA).unwrap().epsilon;
            assert_eq!(spent.least_epsilon(), whole);
        }
    }

    // The odometer charges a step that is not in the plan an upper bound of its cost.
    #[test]
    fn step_outside_plan_is_bounded_above() {
        let plan = plan(cifar(), &[1.0, 2.0]);
        let after = |event: Event| {
            let mut spent = plan.spent(Accountant::Rdp, DELTA).unwrap();
            spent.count(&event);
            spent.least_epsilon()
        };
        let at = |multiplier| Event::new(cifar(), multiplier).unwrap();
        assert_eq!(after(at(7.0)), after(at(2.0)));
        assert!(after(at(0.99)).is_infinite());
        assert!(after(Event::new(Rate::of(1, 2).unwrap(), 7.0).unwrap()).is_infinite());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn divergence_is_convex_in_precision(
            ln_q in -9.0f64..0.0, ln_low in -1.5f64..3.0, ln_ratio in 0.01f64..3.0, share in 0.0f64..1.0, at in 0usize..72,
        ) {
            let rate = Rate::at_most(ln_q.exp()).unwrap();
            let price = |precision: f64| divergence(&Event::new(rate, precision.powf(-0.5)).unwrap(), ORDERS[at]);
            let (high, low) = ((-2.0 * ln_low).exp(), (-2.0 * (ln_low + ln_ratio)).exp());
            let between = price(share * high + (1.0 - share) * low);
            let chord = share * price(high) + (1.0 - share) * price(low);
            prop_assert!(between <= chord * (1.0 + 3e-8), "{between} {chord}");
        }

        #[test]
        fn knots_never_cost_less_than_the_steps(
            ln_q in -9.0f64..0.0, multipliers in prop::collection::vec((-0.5f64..4.0, 1usize..4), 1..12), spread in 1e-9f64..1.0,
        ) {
            let rate = Rate::at_most(ln_q.exp()).unwrap();
            let multipliers: Vec<f64> =
                multipliers.iter().flat_map(|(ln, times)| vec![(spread * ln).exp(); *times]).collect();
            let plan = plan(rate, &multipliers);
            prop_assert_eq!(plan.steps(), multipliers.len() as u64);
            let priced = counts(&plan.knots);
            prop_assert_eq!(priced.iter().map(|(_, times)| times).sum::<u64>(), plan.steps());
            for order in [1.25, 2.0, 3.5, 9.0, 64.0] {
                let ours: f64 = priced.iter().map(|(event, times)| *times as f64 * divergence(event, order)).sum();
                let alone: f64 = multipliers.iter().map(|z| divergence(&Event::new(rate, *z).unwrap(), order)).sum();
                prop_assert!(ours >= alone * (1.0 - 3e-8), "{order}: {ours} {alone}");
            }
        }
    }
}
