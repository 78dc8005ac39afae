//! The Rényi accountant: independent vectors, and properties that hold for every ε.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::{MAX_ORDER, ORDERS, RenyiCurve, divergence, epsilon_at, least_epsilon};
use damper_core::numerics::up;
use proptest::prelude::*;

const DIVERGENCES: &str = include_str!("../src/vectors/accounting/divergence.tsv");
const EPSILONS: &str = include_str!("../src/vectors/accounting/epsilon.tsv");
const OUTSIDE: &str = include_str!("../src/vectors/accounting/outside.tsv");
const LOWER_BOUNDS: &str = include_str!("../src/vectors/accounting/pld.tsv");
const UPWARD: &str = include_str!("../src/vectors/accounting/up.tsv");

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn event(numerator: &str, multiplier: &str) -> SampledGaussian {
    SampledGaussian::new(Rate::from_numerator(numerator.parse().unwrap()).unwrap(), multiplier.parse().unwrap())
        .unwrap()
}

fn curve(event: &SampledGaussian, steps: u64) -> RenyiCurve {
    let mut curve = RenyiCurve::EMPTY;
    curve.add(event, steps);
    curve
}

fn epsilon(rate: f64, multiplier: f64, steps: u64, delta: f64) -> f64 {
    let event = SampledGaussian::new(Rate::at_most(rate).unwrap(), multiplier).unwrap();
    least_epsilon(&[(event, steps)], delta).unwrap().epsilon
}

// Divergences are at least the exact values, and within 1e-8 of them.
#[test]
fn divergence_is_tight_upper_bound() {
    let mut count = 0;
    for row in rows(DIVERGENCES) {
        let (order, truth): (f64, f64) = (row[2].parse().unwrap(), row[3].parse().unwrap());
        let ours = divergence(&event(row[0], row[1]), order);
        // The exact value is rounded to nearest: half a unit in the last place.
        assert!(ours >= truth * (1.0 - 1.2e-16), "below the truth: {row:?}, {ours:e}");
        let allowed = if order.fract() == 0.0 { 1e-11 } else { 1e-8 };
        assert!(ours <= truth * (1.0 + allowed), "too far above: {row:?}, {ours:e}, {:e}", ours / truth - 1.0);
        count += 1;
    }
    assert_eq!(count, 7 * 8 * 17);
}

// At an integer order, epsilon is at least the exact value, and within 1e-6 of it.
#[test]
fn integer_epsilon_is_tight_upper_bound() {
    for row in rows(EPSILONS) {
        let (steps, delta): (u64, f64) = (row[2].parse().unwrap(), row[3].parse().unwrap());
        let (order, truth): (f64, f64) = (row[4].parse().unwrap(), row[5].parse().unwrap());
        let rho = up::mul_up(up::from_u64_up(steps), divergence(&event(row[0], row[1]), order));
        let ours = epsilon_at(rho, order, delta);
        assert!(ours >= truth * (1.0 - 1.2e-16), "below the truth: {row:?}, {ours:e}");
        assert!(ours <= truth * (1.0 + 1e-6), "too far above: {row:?}, {ours:e}");
        // The reported ε is the least over the orders, and this order is among them.
        if ORDERS.contains(&order) {
            assert!(curve(&event(row[0], row[1]), steps).epsilon(delta).unwrap().epsilon <= ours * (1.0 + 1e-15));
        }
    }
}

// At integer orders, divergences agree with independent software. At other orders, they are at most its values.
#[test]
fn divergence_agrees_with_reference() {
    for row in rows(OUTSIDE) {
        let (order, theirs): (f64, f64) = (row[2].parse().unwrap(), row[3].parse().unwrap());
        let ours = divergence(&event(row[0], row[1]), order);
        // The reference adds 1 to a small sum: 1e-12 is its own error. At fractional orders its series stops early,
        // above the exact value.
        assert!(ours <= theirs * (1.0 + 1e-6) + 1e-12, "{row:?}: {ours:e}");
        if order.fract() == 0.0 {
            assert!(ours >= theirs * (1.0 - 1e-6) - 1e-12, "{row:?}: {ours:e}");
        }
    }
}

// Epsilon is never below a lower bound of PLD accounting.
#[test]
fn epsilon_is_above_pld_lower_bound() {
    for row in rows(LOWER_BOUNDS) {
        let (steps, delta, least): (u64, f64, f64) =
            (row[2].parse().unwrap(), row[3].parse().unwrap(), row[4].parse().unwrap());
        let ours = curve(&event(row[0], row[1]), steps).epsilon(delta).unwrap().epsilon;
        assert!(ours >= least, "{row:?}: {ours}");
        // Moments lose up to a factor of 2 at small rates and small δ.
        assert!(ours <= 2.1 * least, "implausibly loose: {row:?}: {ours}");
    }
    // Bounds from the literature on faulty accountants.
    assert!(epsilon(0.01, 0.5, 1000, 1e-5) >= 13.31);
    assert!(epsilon(0.01, 0.7, 10_000, 1e-5) >= 13.83);
    assert!(epsilon(0.01, 1.0, 1000, 1e-5) >= 1.778);
    assert!(epsilon(0.01, 0.6, 500, 1e-6) >= 6.910);
}

// One unsampled release costs at least the exact epsilon of a Gaussian.
#[test]
fn unsampled_step_is_above_exact_epsilon() {
    // Balle, Wang, arXiv 1805.06530, theorem 8: δ(ε) = Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ).
    let phi = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
    for sigma in [0.5, 1.0, 3.0, 20.0] {
        for delta in [1e-3, 1e-5, 1e-9] {
            let ours = epsilon(1.0, sigma, 1, delta);
            let spent = |eps: f64| phi(0.5 / sigma - eps * sigma) - eps.exp() * phi(-0.5 / sigma - eps * sigma);
            let (mut low, mut high) = (0.0, 100.0);
            for _ in 0..100 {
                let middle = 0.5 * (low + high);
                if spent(middle) > delta { low = middle } else { high = middle }
            }
            assert!(ours >= low * (1.0 - 1e-9), "σ {sigma}, δ {delta}: {ours} below {low}");
            assert!(ours <= 1.6 * low, "σ {sigma}, δ {delta}: {ours} far above {low}");
        }
    }
}

/// The least ε over a dense sweep of orders.
fn swept(event: &SampledGaussian, steps: u64, delta: f64) -> f64 {
    let mut least = f64::INFINITY;
    let mut order: f64 = 1.05;
    while order < MAX_ORDER {
        // Integers above 64: they are cheap, and sufficiently dense.
        let at = if order > 64.0 { order.floor() } else { order };
        least = least.min(epsilon_at(steps as f64 * divergence(event, at), at, delta));
        order = 1.0 + (order - 1.0) * 1.01;
    }
    least
}

// In ordinary training, the grid of orders loses less than 0.5 %.
#[test]
fn order_grid_loses_below_half_percent() {
    for (rate, multiplier, steps, delta) in [
        (1e-3, 0.5, 1000, 1e-6),
        (4e-3, 0.7, 5000, 1e-5),
        (4e-3, 1.1, 14_000, 1e-5),
        (0.01, 0.5, 1000, 1e-5),
        (0.01, 1.0, 1000, 1e-5),
        (0.01, 4.0, 10_000, 1e-5),
        (0.1, 2.0, 500, 1e-5),
        (0.1, 20.0, 500, 1e-5),
        (1.0, 1.0, 1, 1e-5),
        (1.0, 30.0, 20, 1e-8),
    ] {
        let event = SampledGaussian::new(Rate::at_most(rate).unwrap(), multiplier).unwrap();
        let ours = curve(&event, steps).epsilon(delta).unwrap();
        let finest = swept(&event, steps, delta);
        assert!(ours.epsilon <= 1.005 * finest, "{rate} {multiplier} {steps}: {ours:?} against {finest}");
    }
}

// The search between orders loses less than 0.5 %, even at a steep change.
#[test]
fn order_search_loses_below_half_percent() {
    for (rate, multiplier, steps, delta) in [
        (1e-3, 5.0, 9, 1e-7),
        (1e-3, 2.5, 81, 1e-5),
        (1e-3, 0.8, 243, 1e-3),
        (0.01, 0.5, 27, 1e-5),
        (0.01, 2.5, 3, 1e-3),
        (4e-3, 0.7, 5000, 1e-5),
        (1.0, 0.05, 1, 1e-5),
        (1.0, 500.0, 1, 1e-5),
    ] {
        let event = SampledGaussian::new(Rate::at_most(rate).unwrap(), multiplier).unwrap();
        let ours = least_epsilon(&[(event, steps)], delta).unwrap();
        let finest = swept(&event, steps, delta);
        assert!(ours.epsilon <= 1.005 * finest, "{rate} {multiplier} {steps}: {ours:?} against {finest}");
        assert!(ours.epsilon <= curve(&event, steps).epsilon(delta).unwrap().epsilon);
        // The returned order gives the returned ε.
        let again = epsilon_at(steps as f64 * divergence(&event, ours.order), ours.order, delta);
        assert!((again / ours.epsilon - 1.0).abs() < 1e-12, "{ours:?}, {again}");
    }
}

// Extreme inputs give a valid bound or infinity, and never NaN.
#[test]
fn extreme_inputs_are_never_nan() {
    for numerator in [0, 1, 2, 1 << 30, 1 << 52, (1 << 53) - 1, 1 << 53] {
        let rate = Rate::from_numerator(numerator).unwrap();
        for multiplier in [5e-324, 1e-200, 1e-4, 1e-3, 0.01, 0.05, 0.2, 1e3, 1e8, 1e160, f64::MAX] {
            let event = SampledGaussian::new(rate, multiplier).unwrap();
            for steps in [0, 1, 10_000_000, u64::MAX] {
                let curve = curve(&event, steps);
                assert!(curve.divergences().iter().all(|&rho| rho >= 0.0), "{event:?} {steps}");
                for delta in [f64::MIN_POSITIVE, 1e-15, 0.5, 1.0 - f64::EPSILON] {
                    let epsilon = curve.epsilon(delta).unwrap().epsilon;
                    let least = least_epsilon(&[(event, steps)], delta).unwrap().epsilon;
                    assert!((0.0..=epsilon).contains(&least), "{event:?} {steps} {delta}: {least}");
                    assert!(epsilon >= 0.0, "{event:?} {steps} {delta}: {epsilon}");
                    if numerator == 0 || steps == 0 {
                        assert_eq!(epsilon, 0.0);
                    } else if multiplier < 0.2 && numerator > 1 << 30 && delta < 0.5 {
                        assert!(epsilon > 1.0, "{event:?} {steps} {delta}: {epsilon}");
                    }
                }
            }
        }
    }
    let event = SampledGaussian::new(Rate::ONE, 1.0).unwrap();
    for delta in [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(RenyiCurve::of(&event).epsilon(delta).unwrap_err().parameter, "delta");
    }
    for order in [1.0, 0.0, -3.0, f64::NAN, f64::INFINITY, 1024.5] {
        assert_eq!(divergence(&event, order), f64::INFINITY);
    }
}

// Upward functions are at least the exact value, and at most six units above it.
#[test]
fn upward_rounding_is_within_six_ulps() {
    for row in rows(UPWARD) {
        let (argument, below): (f64, f64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        let ours = match row[0] {
            "exp" => up::exp_up(argument),
            "exp_m1" => up::exp_m1_up(argument),
            "ln" => up::ln_up(argument),
            "ln_1p" => up::ln_1p_up(argument),
            "sqrt" => up::sqrt_up(argument),
            other => panic!("no function {other}"),
        };
        let mut most = below;
        for _ in 0..6 {
            most = up::next_up(most);
        }
        assert!(ours > below && ours <= most, "{row:?}: {ours:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // Epsilon grows with the steps, the sampling rate and the inverse noise multiplier.
    #[test]
    fn epsilon_is_monotone(
        numerator in 1u64..1 << 53, log_sigma in -1.0f64..3.5, steps in 1u64..100_000, log_delta in -30.0f64..-3.0,
    ) {
        // Quadrature is within 1e-8 above the exact value, and not monotone to the last bit.
        const SLACK: f64 = 1.0 + 1e-7;
        let (sigma, delta) = (log_sigma.exp(), log_delta.exp());
        let at = |numerator, sigma, steps| {
            let event = SampledGaussian::new(Rate::from_numerator(numerator).unwrap(), sigma).unwrap();
            curve(&event, steps).epsilon(delta).unwrap().epsilon
        };
        let base = at(numerator, sigma, steps);
        prop_assert!(at(numerator, sigma, steps + 1 + steps / 10) >= base);
        prop_assert!(at(numerator / 2, sigma, steps) <= base * SLACK);
        prop_assert!(at(numerator, sigma * 1.1, steps) <= base * SLACK);
    }

    #[test]
    fn log_sum_is_at_least_plain_sum(terms in prop::collection::vec(1e-30f64..1e30, 0..20)) {
        let mut sum = up::LogSum::EMPTY;
        let mut plain = 0.0;
        for &term in &terms {
            sum.add(up::ln_up(term));
            plain += term;
        }
        prop_assert!(sum.ln() >= plain.ln() - 1e-13);
        prop_assert!(terms.is_empty() || sum.ln() <= plain.ln() + 1e-11);
        prop_assert!(sum.ln_1p() >= plain.ln_1p() * (1.0 - 1e-14) && sum.ln_1p() <= plain.ln_1p() * (1.0 + 1e-11));
    }
}
