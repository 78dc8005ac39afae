use super::adjacency::Adjacency;
use super::*;
use crate::pld::{Neighbours, epsilon, epsilon_lower_bound};
use crate::{Accountant, Event, calibrate_count, calibrate_event, sampling_rate};

const ADD: Adjacency = Adjacency::AddOrRemove;
const REPLACE: Adjacency = Adjacency::ReplaceOne;
const ZERO: Adjacency = Adjacency::ZeroOut;

fn dp_sgd(rate: f64, multiplier: f64, steps: u64) -> DpEvent {
    DpEvent::gaussian(multiplier).poisson(rate).times(steps)
}

/// The discrete Gaussian that damper runs costs four millionths more noise than the continuous Gaussian.
#[test]
fn dp_sgd_costs_what_an_event_costs() {
    for (rate, multiplier, steps) in [(0.01, 1.1, 1000), (0.2, 4.0, 50)] {
        let event = Event::poisson(sampling_rate(rate).unwrap(), Event::gaussian(multiplier).unwrap()).unwrap();
        let event = event.times(steps);
        let run = dp_sgd(rate, multiplier, steps);
        let (ours, known) = (run.epsilon(ADD, 1e-5).unwrap(), event.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon);
        assert!(ours <= known && known <= ours * (1.0 + 1e-4) + 2e-5, "{ours} {known}");
        assert_eq!(run.epsilon(ZERO, 1e-5).unwrap(), ours);
        let (ours, known) = (run.epsilon(REPLACE, 1e-5).unwrap(), event.epsilon_of_replaced(1e-5).unwrap().epsilon);
        assert!(ours <= known && known <= ours * (1.0 + 1e-3) + 2e-5, "{ours} {known}");
    }
}

#[test]
fn both_bounds_enclose_each_other() {
    let laplace = DpEvent::laplace(2.0);
    let all = [
        (dp_sgd(0.01, 1.1, 1000), ADD, 0.005),
        (dp_sgd(0.01, 2.0, 1000), REPLACE, 0.005),
        (DpEvent::compose([dp_sgd(0.01, 1.1, 1000), laplace.clone()]), ADD, 0.005),
        (laplace.clone().times(10), ADD, 0.005),
        (laplace.poisson(0.1).times(100), ADD, 0.005),
        (DpEvent::DiscreteGaussian { sigma: 3.0, sensitivity: 2 }.times(10), ADD, 0.005),
        (DpEvent::DiscreteLaplace { parameter: 0.3, sensitivity: 2 }.times(10), ADD, 0.005),
        (DpEvent::Approximate { epsilon: 0.1, delta: 1e-8 }.times(100), ADD, 0.005),
        (
            DpEvent::TruncatedPoisson { population: 60_000, rate: 0.004, most: 400, multiplier: 1.1 }.times(100),
            ZERO,
            0.005,
        ),
        // The largest of both directions is below: the exact ε is not known.
        (DpEvent::gaussian(2.0).fixed_size(10, 1000).times(1000), REPLACE, 0.3),
    ];
    for (run, adjacency, near) in all {
        let (low, high) = run.epsilon_bounds(adjacency, 1e-5).unwrap();
        let low = low.unwrap();
        assert!(low <= high && high <= low * (1.0 + near), "{run:?}: {low} {high}");
        let at_high = run.delta(adjacency, high).unwrap();
        assert!(at_high <= 1e-5 * (1.0 + 5e-3), "{run:?}: {at_high:e}");
        // At the lower bound of ε, the exact δ is at least 1e-5.
        let at_low = run.delta(adjacency, low).unwrap();
        let below = run.delta_lower_bound(adjacency, low).unwrap().unwrap();
        assert!(below <= at_low && at_low >= 1e-5 * (1.0 - 1e-9), "{run:?}: {below:e} {at_low:e}");
    }
}

/// A batch of fixed size once: `H = q·H'` of the unsampled Gaussian with twice the shift (Balle, Barthe and Gaboardi).
#[test]
fn one_fixed_batch_has_its_closed_form() {
    let gaussian = |shift: f64, epsilon: f64| {
        let phi = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
        phi(shift / 2.0 - epsilon / shift) - libm::exp(epsilon) * phi(-shift / 2.0 - epsilon / shift)
    };
    for (sample, population, multiplier) in [(1u64, 10u64, 2.0f64), (30, 100, 4.0), (999, 1000, 6.0)] {
        let q = sample as f64 / population as f64;
        let run = DpEvent::gaussian(multiplier).fixed_size(sample, population);
        for epsilon in [0.05f64, 0.3] {
            let exact = q * gaussian(2.0 / multiplier, ((epsilon.exp() - 1.0 + q) / q).ln());
            let found = run.delta(REPLACE, epsilon).unwrap();
            let below = run.delta_lower_bound(REPLACE, epsilon).unwrap().unwrap();
            assert!(below <= exact && exact <= found && found <= 1.01 * exact, "{below:e} {exact:e} {found:e}");
        }
    }
}

#[test]
fn ordered_mechanisms_are_one_gaussian() {
    let one = |multiplier: f64| DpEvent::gaussian(multiplier).epsilon(ZERO, 1e-6).unwrap();
    let near = |run: &DpEvent, known: f64| {
        let found = run.epsilon(ZERO, 1e-6).unwrap();
        assert!(found >= known * (1.0 - 1e-9) && found <= known * (1.0 + 1e-8), "{run:?}: {found} {known}");
    };
    // 1,000 steps have ten levels.
    near(&DpEvent::Tree { multiplier: 5.0, steps: 1000 }, one(5.0 / 10f64.sqrt()));
    near(&DpEvent::Tree { multiplier: 5.0, steps: 1024 }, one(5.0 / 11f64.sqrt()));
    // Columns at distance 2 overlap once: (1, ½, ½·…): sums 1, ½, 1, ½ of two participations.
    let matrix = DpEvent::toeplitz(4.0, &[1.0, 0.5], [4, 2, 2]).unwrap();
    near(&matrix, one(4.0 / 2.5f64.sqrt()));
    let Err(AccountingError::Unsupported { adjacency: ADD, .. }) = matrix.epsilon(ADD, 1e-6) else { panic!() };
    // Releases of one draw are one release.
    let joint = DpEvent::compose([DpEvent::gaussian(3.0), DpEvent::gaussian(4.0)]).poisson(0.1).times(30);
    let (found, known) = (joint.epsilon(ADD, 1e-6).unwrap(), dp_sgd(0.1, 2.4, 30).epsilon(ADD, 1e-6).unwrap());
    assert!((found / known - 1.0).abs() < 1e-9, "{found} {known}");
}

#[test]
fn nothing_and_everything() {
    let nothing = DpEvent::compose([]);
    assert_eq!(nothing.epsilon_bounds(ADD, 1e-5).unwrap(), (Some(0.0), 0.0));
    assert_eq!(nothing.delta(ADD, 0.0).unwrap(), 0.0);
    assert_eq!(dp_sgd(0.0, 1.0, 10).epsilon(ADD, 1e-5).unwrap(), 0.0);
    let all = DpEvent::compose([dp_sgd(0.1, 1.0, 10), DpEvent::NonPrivate]);
    assert_eq!(all.epsilon_bounds(ADD, 1e-5).unwrap(), (Some(f64::INFINITY), f64::INFINITY));
    assert_eq!(all.delta(ADD, 3.0).unwrap(), 1.0);
}

#[test]
fn wrong_values_are_named() {
    let error = |run: DpEvent, adjacency| run.epsilon(adjacency, 1e-5).unwrap_err();
    assert_eq!(error(DpEvent::gaussian(0.0), ADD), AccountingError::NoiseMultiplier(0.0));
    assert_eq!(error(dp_sgd(1.5, 1.0, 1), ADD), AccountingError::SamplingRate(1.5));
    assert_eq!(error(dp_sgd(1e-14, 1.0, 1), ADD), AccountingError::SmallRate(1e-14));
    let sampled = error(DpEvent::RandomizedResponse { noise: 0.1, buckets: 3 }.poisson(0.1), ZERO).to_string();
    assert_eq!(sampled, "a Poisson draw of randomised response: has no proved bound under zero-out");
    let laplace = error(DpEvent::laplace(1.0).poisson(0.1), REPLACE).to_string();
    assert_eq!(laplace, "a Poisson draw of a Laplace release: has no proved bound under replace-one");
    let fixed = error(DpEvent::gaussian(1.0).fixed_size(1, 10), ZERO).to_string();
    assert_eq!(fixed, "a batch of fixed size: has no proved bound under zero-out");
    let shift = error(DpEvent::DiscreteLaplace { parameter: 1.0, sensitivity: 0 }, ADD).to_string();
    assert!(shift.starts_with("`sensitivity` 0: must be"), "{shift}");
    let much = error(DpEvent::Approximate { epsilon: 1.0, delta: 1e-4 }, ADD);
    assert_eq!(much, AccountingError::NoBound { delta: 1e-5 });
    assert!(matches!(DpEvent::gaussian(1.0).delta(ADD, -1.0), Err(AccountingError::EpsilonOfDelta(_))));
}

#[test]
fn calibration_is_at_the_edge() {
    let cost = |run: DpEvent| run.epsilon(ADD, 1e-5).unwrap();
    let noise = |value: f64| Ok::<_, AccountingError>(dp_sgd(0.01, value, 500));
    let found = calibrate_event(ADD, 2.0, 1e-5, 0.3, 20.0, noise).unwrap();
    assert!(cost(dp_sgd(0.01, found, 500)) <= 2.0 && cost(dp_sgd(0.01, 0.999 * found, 500)) > 2.0, "{found}");
    let rate = |value: f64| Ok::<_, AccountingError>(dp_sgd(value, 1.0, 500));
    let found = calibrate_event(ADD, 2.0, 1e-5, 1e-4, 1.0, rate).unwrap();
    assert!(cost(dp_sgd(found, 1.0, 500)) <= 2.0 && cost(dp_sgd(1.002 * found, 1.0, 500)) > 2.0, "{found}");
    let steps = |value: u64| Ok::<_, AccountingError>(DpEvent::gaussian(20.0).times(value));
    let found = calibrate_count(ADD, 2.0, 1e-5, 1, 10_000, steps).unwrap();
    assert!(cost(DpEvent::gaussian(20.0).times(found)) <= 2.0 && cost(DpEvent::gaussian(20.0).times(found + 1)) > 2.0);
    let both = calibrate_count(ADD, 2.0, 1e-5, 1, 2, steps).unwrap_err();
    assert_eq!(both, AccountingError::NoRoot { epsilon: 2.0, both: true });
    let none = calibrate_event(ADD, 2.0, 1e-5, 3.0, 1.0, noise).unwrap_err();
    assert_eq!(none, AccountingError::Bracket { low: 3.0, high: 1.0 });
}

/// The orders of a selection bound it, and those of zCDP are its line.
#[test]
fn orders_alone_have_upper_bounds() {
    let best = DpEvent::gaussian(5.0).best_of("geometric:0.1".parse().unwrap());
    let event = Event::best_of("geometric:0.1".parse().unwrap(), vec![Event::gaussian(5.0).unwrap()]).unwrap();
    let (low, high) = best.epsilon_bounds(ADD, 1e-5).unwrap();
    let known = event.epsilon(Accountant::Rdp, 1e-5).unwrap().epsilon;
    assert!(low.is_none() && high <= known && high >= known * (1.0 - 1e-4), "{high} {known}");
    // A Gaussian is ½-zCDP at σ = 1.
    let line = DpEvent::Concentrated { rho: 0.5, xi: 0.0 }.epsilon(ADD, 1e-5).unwrap();
    let orders = DpEvent::gaussian(1.0).epsilon_by_orders(ADD, 1e-5).unwrap().epsilon;
    assert!(line >= orders && line <= 1.01 * orders, "{line} {orders}");
}

/// Under either relation of damper's own events, lower bounds are those of the accountant.
#[test]
fn lower_bound_is_the_accountants() {
    let event = damper_core::accounting::event::SampledGaussian::new(sampling_rate(0.25).unwrap(), 2.0).unwrap();
    let run = dp_sgd(0.25, 2.0, 40);
    for (adjacency, neighbours) in [(ADD, Neighbours::AddOrRemove), (REPLACE, Neighbours::Replace)] {
        let (low, high) = run.epsilon_bounds(adjacency, 1e-6).unwrap();
        assert_eq!(low.unwrap(), epsilon_lower_bound(&[(event, 40)], neighbours, 1e-6).unwrap());
        assert_eq!(high, epsilon(&[(event, 40)], neighbours, 1e-6).unwrap());
    }
}
