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

/// ε with every step computed separately.
fn stepwise(rate: Rate, multipliers: &[f64]) -> f64 {
    let events: Vec<_> = multipliers.iter().map(|z| (SampledGaussian::new(rate, *z).unwrap(), 1)).collect();
    least_epsilon(&events, DELTA).unwrap().epsilon
}

// A constant schedule costs exactly the epsilon of its multiplier.
#[test]
fn constant_schedule_costs_its_multiplier() {
    for multiplier in [0.36, 1.27, 8.0] {
        let listed = plan(cifar(), &[multiplier; 900]);
        assert_eq!(listed, Plan::constant(cifar(), multiplier, None, 900).unwrap());
        let event = SampledGaussian::new(cifar(), multiplier).unwrap();
        let priced = listed.price(Accountant::Rdp, DELTA).unwrap();
        let alone = least_epsilon(&[(event, 900)], DELTA).unwrap();
        assert_eq!((priced.epsilon, priced.order), (alone.epsilon, Some(alone.order)));
    }
    // If there are few different multipliers, all of them are knots.
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
        let even = SampledGaussian::new(Rate::ONE, constant).unwrap();
        for order in ORDERS {
            let ours: f64 = uneven.iter().map(|(event, times)| *times as f64 * divergence(event, order)).sum();
            // Exact up to the integer steps that the shares of knots are rounded up to.
            let constant = steps as f64 * divergence(&even, order);
            assert!(ours >= constant * (1.0 - 1e-12) && ours < constant * 1.01, "{order}: {ours} {constant}");
            let alone: f64 =
                multipliers.iter().map(|z| divergence(&SampledGaussian::new(Rate::ONE, *z).unwrap(), order)).sum();
            assert!((alone / constant - 1.0).abs() < 1e-9);
        }
    }
}

// An uneven schedule costs more than a constant schedule of equal precision, unless the noise is large.
#[test]
fn uneven_schedule_costs_more_than_even() {
    // An outside implementation, with every step computed separately, gives 9.83 and 2.28 for 10.19/8: the published
    // eight-fold ε.
    let mut least = f64::INFINITY;
    for (constant, uneven, even) in [(10.19 / 8.0, 9.83, 2.28), (10.19 / 4.0, 1.92, 0.917), (10.19 / 2.0, 0.491, 0.417)]
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

/// `1/σ² = λ/low² + (1 - λ)/high²`, or slightly more.
#[test]
fn a_place_is_the_share_of_the_precision() {
    for (low, multiplier, high) in
        [(1.0f64, 1.5f64, 2.0f64), (0.3, 0.301, 0.4), (5.0, 5.9999, 6.0), (1.0, 1.00005, 1.0001)]
    {
        let precision = |sigma: f64| 1.0 / (sigma * sigma);
        let share = (precision(multiplier) - precision(high)) / (precision(low) - precision(high));
        let exact = share * WHOLE as f64;
        let found = place(low, multiplier, high) as f64;
        // A difference of squares this close keeps fewer digits.
        assert!(found >= exact && found <= exact + 1e4, "{low} {multiplier}: {found} {exact}");
    }
    assert_eq!((place(1.0, 1.0, 2.0), place(1.0, 1.0 + 1e-9, 1.0 + 1e-8)), (WHOLE, WHOLE));
}

#[test]
fn events_of_a_plan_are_counted_as_they_are() {
    let at = |multiplier| SampledGaussian::new(cifar(), multiplier).unwrap();
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
    let after = |event: SampledGaussian| {
        let mut spent = plan.spent(Accountant::Rdp, DELTA).unwrap();
        spent.count(&event);
        spent.least_epsilon()
    };
    let at = |multiplier| SampledGaussian::new(cifar(), multiplier).unwrap();
    assert_eq!(after(at(7.0)), after(at(2.0)));
    assert!(after(at(0.99)).is_infinite());
    assert!(after(SampledGaussian::new(Rate::of(1, 2).unwrap(), 7.0).unwrap()).is_infinite());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn divergence_is_convex_in_precision(
        ln_q in -9.0f64..0.0, ln_low in -1.5f64..3.0, ln_ratio in 0.01f64..3.0, share in 0.0f64..1.0, at in 0usize..72,
    ) {
        let rate = Rate::at_most(ln_q.exp()).unwrap();
        let price = |precision: f64| divergence(&SampledGaussian::new(rate, precision.powf(-0.5)).unwrap(), ORDERS[at]);
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
            let alone: f64 = multipliers.iter().map(|z| divergence(&SampledGaussian::new(rate, *z).unwrap(), order)).sum();
            prop_assert!(ours >= alone * (1.0 - 3e-8), "{order}: {ours} {alone}");
        }
    }
}
