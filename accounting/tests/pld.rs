//! The tight accountant against an independent generator's bounds, closed forms, and the Rényi accountant.

use damper_accounting::pld::{Neighbours, epsilon, epsilon_lower_bound};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::least_epsilon;
use proptest::prelude::*;

const VECTORS: [&str; 2] = [include_str!("../src/vectors/pld.tsv"), include_str!("../src/vectors/corners.tsv")];

fn event(q: f64, sigma: f64) -> SampledGaussian {
    SampledGaussian::new(Rate::at_least(q).unwrap(), sigma).unwrap()
}

fn upper(events: &[(SampledGaussian, u64)], delta: f64) -> f64 {
    epsilon(events, Neighbours::AddOrRemove, delta).unwrap()
}

fn lower(events: &[(SampledGaussian, u64)], delta: f64) -> f64 {
    epsilon_lower_bound(events, Neighbours::AddOrRemove, delta).unwrap()
}

/// The documented tolerance above the exact ε.
fn tolerance(epsilon: f64) -> f64 {
    f64::max(0.005 * epsilon, 1e-4)
}

struct Point {
    events: [(SampledGaussian, u64); 1],
    delta: f64,
    least: f64,
    most: f64,
}

fn points() -> Vec<Point> {
    let lines = VECTORS.into_iter().flat_map(str::lines).filter(|line| !line.starts_with('#'));
    let point = |line: &str| {
        let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let [numerator, sigma, steps, delta, least, most] = fields[..] else { panic!("{line}") };
        let rate = Rate::from_numerator(numerator as u64).unwrap();
        Point { events: [(SampledGaussian::new(rate, sigma).unwrap(), steps as u64)], delta, least, most }
    };
    lines.map(point).collect()
}

// The test vectors cover every part and every boundary of the supported region.
#[test]
fn vectors_cover_promised_region() {
    let points = points();
    let all = |what: &str, least: usize, is: &dyn Fn(&Point) -> bool| {
        let count = points.iter().filter(|point| is(point)).count();
        println!("{what}: {count}");
        assert!(count >= least, "{what}: {count}");
    };
    let rate = |point: &Point| point.events[0].0.rate().as_f64();
    let multiplier = |point: &Point| point.events[0].0.multiplier();
    for decade in 0..5 {
        let steps = [10u64.pow(decade), 10u64.pow(decade + 1)];
        let within = |point: &Point| (steps[0]..steps[1]).contains(&point.events[0].1);
        all(&format!("steps from {}", steps[0]), 20, &within);
    }
    all("100,000 steps", 20, &|point| point.events[0].1 == 100_000);
    for (low, high) in [(1e-5, 1e-4), (1e-4, 1e-3), (1e-3, 1e-2), (1e-2, 0.1), (0.1, 1.0)] {
        all(&format!("rates from {low:e}"), 20, &|point| (0.99 * low..0.99 * high).contains(&rate(point)));
    }
    all("rate 1e-5", 15, &|point| rate(point) < 1.01e-5);
    all("rate 1", 20, &|point| rate(point) == 1.0);
    for (low, high) in [(0.3, 0.5), (0.5, 1.0), (1.0, 3.0), (3.0, 10.0), (10.0, 20.1)] {
        all(&format!("multipliers from {low}"), 20, &|point| (low..high).contains(&multiplier(point)));
    }
    all("multiplier 0.3", 15, &|point| multiplier(point) == 0.3);
    all("multiplier 20", 15, &|point| multiplier(point) == 20.0);
    for delta in [1e-10, 1e-3] {
        all(&format!("delta {delta:e}"), 20, &|point| point.delta == delta);
    }
    for (low, high) in [(0.01, 0.02), (0.02, 0.1), (0.1, 1.0), (1.0, 10.0), (10.0, 80.0), (80.0, 100.1)] {
        all(&format!("epsilon from {low}"), 15, &|point| (low..high).contains(&point.most));
    }
}

// Epsilon is at least the lower bound of the vectors, and within the tolerance of it.
#[test]
fn epsilon_within_tolerance_of_vectors() {
    let points = points();
    assert!(points.len() >= 200, "{}", points.len());
    for Point { events, delta, least, most } in points {
        let ours = upper(&events, delta);
        assert!(ours >= least, "{events:?} {delta}: {ours} {least}");
        assert!(ours <= least + tolerance(least), "{events:?} {delta}: {ours} {least} {most}");
    }
}

// The lower bound is at most the upper bound of the vectors, and close to the computed upper bound.
#[test]
fn lower_bound_is_below_reference() {
    for (at, Point { events, delta, most, .. }) in points().into_iter().enumerate() {
        if at % 4 != 0 {
            continue;
        }
        let (low, high) = (lower(&events, delta), upper(&events, delta));
        assert!(low <= most && low <= high, "{events:?} {delta}: {low} {high} {most}");
        assert!(high - low <= tolerance(low) / 2.0, "{events:?} {delta}: {low} {high}");
    }
}

#[test]
fn rdp_is_never_below_pld_lower_bound() {
    for Point { events, delta, least, .. } in points() {
        let renyi = least_epsilon(&events, delta).unwrap().epsilon;
        assert!(renyi >= least, "{events:?} {delta}: {renyi} {least}");
    }
}

/// δ of the Gaussian with shift μ standard deviations.
fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    let phi = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
    phi(mu / 2.0 - epsilon / mu) - libm::exp(epsilon) * phi(-mu / 2.0 - epsilon / mu)
}

fn gaussian_epsilon(mu: f64, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if gaussian_delta(mu, middle) > delta { low = middle } else { high = middle }
    }
    high
}

#[test]
fn unsampled_epsilon_has_closed_form() {
    let uneven: Vec<(SampledGaussian, u64)> = (0..60).map(|t| (event(1.0, 20.0 + f64::from(t)), 7)).collect();
    let joint = [(event(1.0, 3.0).and(4.0).unwrap(), 1)];
    let cases: [&[(SampledGaussian, u64)]; 5] = [
        &[(event(1.0, 1.0), 1)],
        &[(event(1.0, 0.7), 3), (event(1.0, 5.0), 20)],
        &[(event(1.0, 60.0), 10_000)],
        &uneven,
        &joint,
    ];
    for events in cases {
        let mu = events.iter().map(|(event, times)| *times as f64 / event.multiplier().powi(2)).sum::<f64>().sqrt();
        for delta in [1e-3, 1e-6, 1e-10] {
            let exact = gaussian_epsilon(mu, delta);
            let (low, high) = (lower(events, delta), upper(events, delta));
            assert!(low <= exact * (1.0 + 1e-9) && exact <= high * (1.0 + 1e-9), "{mu} {delta}: {low} {exact} {high}");
            assert!(high - exact <= tolerance(exact) && exact - low <= tolerance(exact), "{low} {exact} {high}");
        }
    }
}

// The epsilon of one step has the closed form of the mixture, in the larger direction.
#[test]
fn one_step_has_closed_form() {
    for (q, sigma, delta) in [(0.01, 0.5, 1e-5), (0.3, 1.0, 1e-6), (1e-3, 0.4, 1e-8), (0.9, 2.0, 1e-4)] {
        // H_γ(P‖Q) = q·H_γ'(N₁‖N₀), γ' = 1 + (γ−1)/q.
        let inner = gaussian_epsilon(1.0 / sigma, delta / q);
        let exact = (q * libm::expm1(inner)).ln_1p();
        let (low, high) = (lower(&[(event(q, sigma), 1)], delta), upper(&[(event(q, sigma), 1)], delta));
        assert!(low <= exact && exact <= high * (1.0 + 1e-9), "{low} {exact} {high}");
        assert!(high - exact <= tolerance(exact), "{low} {exact} {high}");
    }
}

// Few mixtures bound the cost of a schedule of 10,000 steps closely.
#[test]
fn long_schedule_is_close_with_few_knots() {
    let rising = |t: u32| 0.8 + f64::from(t) * 1e-5;
    let falling = |t: u32| 1.3 - 2e-5 * f64::from(t);
    for multiplier in [rising as fn(u32) -> f64, falling] {
        let events: Vec<(SampledGaussian, u64)> = (1..=10_000).map(|t| (event(0.005, multiplier(t)), 1)).collect();
        let ours = upper(&events, 1e-5);
        // A lower bound: multipliers rounded up to a few values, each computed separately.
        let coarse = |event: &SampledGaussian| 1.001f64.powf((event.multiplier().ln() / 1.001f64.ln()).ceil());
        let mut fewer: Vec<(SampledGaussian, u64)> = Vec::new();
        for (event, _) in &events {
            let rounded = SampledGaussian::new(event.rate(), coarse(event)).unwrap();
            match fewer.last_mut() {
                Some((last, times)) if *last == rounded => *times += 1,
                _ => fewer.push((rounded, 1)),
            }
        }
        let below = lower(&fewer, 1e-5);
        assert!(ours >= below && ours <= below + tolerance(below), "{ours} {below}");
    }
}

// A schedule of unbounded noise costs at most 0.5 % more than with 0.1 % more noise.
#[test]
fn unbounded_noise_costs_little_more() {
    let polynomial = |t: u32| 0.45 * (20.0 + f64::from(t)).powf(0.25);
    let endless = |t: u32| 0.3 / (0.1 - (0.1 - 1e-10) * (f64::from(t) / 3000.0).sqrt()).sqrt();
    for multiplier in [polynomial as fn(u32) -> f64, endless] {
        let cost = |factor: f64| {
            let events: Vec<_> = (1..=3000).map(|t| (event(0.005, factor * multiplier(t)), 1)).collect();
            upper(&events, 1e-5)
        };
        let (here, less) = (cost(1.0), cost(1.001));
        assert!(less <= here && here <= less * 1.005, "{here} {less}");
    }
}

// Changing sampling rates cost more than the smallest alone, and less than the largest.
#[test]
fn mixed_sampling_rate_cost_is_bounded() {
    let changing: Vec<(SampledGaussian, u64)> =
        (0..2000).map(|t| (event(0.002 + 1e-6 * f64::from(t), 0.8 + 1e-4 * f64::from(t % 500)), 1)).collect();
    let ours = upper(&changing, 1e-6);
    let exactly_two = [(event(0.002, 0.8), 1000), (event(0.004, 0.8), 1000)];
    assert!(ours <= upper(&exactly_two, 1e-6) * 1.3 && ours >= lower(&[(event(0.002, 0.85), 2000)], 1e-6));
    // Few enough for the lower bound, which computes each event separately.
    let some: Vec<(SampledGaussian, u64)> = changing.iter().step_by(50).map(|(event, _)| (*event, 50)).collect();
    let (low, high) = (lower(&some, 1e-6), upper(&some, 1e-6));
    assert!(low <= high && high <= low + tolerance(low), "{low} {high}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    // The two PLD bounds are close, and RDP is never below the lower bound.
    #[test]
    fn bounds_enclose_truth_and_rdp_is_above(
        ln_q in -11.5f64..0.0, ln_sigma in -1.2f64..3.0, ln_steps in 0.0f64..10.0, ln_delta in -23.0f64..-6.9,
    ) {
        let events = [(event(ln_q.exp(), ln_sigma.exp()), ln_steps.exp() as u64)];
        let delta = ln_delta.exp();
        let high = upper(&events, delta);
        prop_assume!((0.01..100.0).contains(&high));
        let low = lower(&events, delta);
        prop_assert!(low <= high && high - low <= tolerance(low), "{events:?} {delta}: {low} {high}");
        prop_assert!(least_epsilon(&events, delta).unwrap().epsilon >= low);
    }

    // More noise, fewer steps or a larger delta never cost more.
    #[test]
    fn cost_falls_with_noise_and_delta(
        ln_q in -9.0f64..0.0, ln_sigma in -1.0f64..2.0, steps in 1u64..3000, ln_delta in -20.0f64..-6.9,
    ) {
        let cost = |sigma: f64, steps: u64, delta: f64| upper(&[(event(ln_q.exp(), sigma), steps)], delta);
        let (sigma, delta) = (ln_sigma.exp(), ln_delta.exp());
        let here = cost(sigma, steps, delta);
        let slack = tolerance(here);
        prop_assert!(cost(1.1 * sigma, steps, delta) <= here + slack);
        prop_assert!(cost(sigma, steps + 1 + steps / 10, delta) + slack >= here);
        prop_assert!(cost(sigma, steps, 2.0 * delta) <= here + slack);
    }
}
