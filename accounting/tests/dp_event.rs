//! `DpEvent` with the names of this crate alone: against an independent generator's bounds, mpmath and extremes.

use damper_accounting::{AccountingError, Adjacency, DpEvent};

const ADD: Adjacency = Adjacency::AddOrRemove;
const REPLACE: Adjacency = Adjacency::ReplaceOne;

/// The documented tolerance above the exact ε.
fn tolerance(epsilon: f64) -> f64 {
    f64::max(0.005 * epsilon, 1e-4)
}

struct Point {
    run: DpEvent,
    delta: f64,
    least: f64,
    most: f64,
}

fn points(files: &[&str]) -> Vec<Point> {
    let lines = files.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#'));
    let point = |line: &str| {
        let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let [numerator, multiplier, steps, delta, least, most] = fields[..] else { panic!("{line}") };
        let rate = numerator / 2f64.powi(53);
        Point { run: DpEvent::gaussian(multiplier).poisson(rate).times(steps as u64), delta, least, most }
    };
    lines.map(point).collect()
}

/// 366 configurations with bounds of an independent generator: ε is never below the truth, and near it.
#[test]
fn epsilon_is_near_and_never_below() {
    let points = points(&[include_str!("../src/vectors/pld.tsv"), include_str!("../src/vectors/corners.tsv")]);
    assert!(points.len() >= 300, "{}", points.len());
    for Point { run, delta, least, most } in points {
        let found = run.epsilon(ADD, delta).unwrap();
        assert!(found >= least, "{run:?} {delta:e}: {found} {least}");
        assert!(found <= least + tolerance(least), "{run:?} {delta:e}: {found} {least} {most}");
    }
}

#[test]
fn replaced_epsilon_is_near_and_never_below() {
    for Point { run, delta, least, most } in points(&[include_str!("../src/vectors/replace.tsv")]) {
        let found = run.epsilon(REPLACE, delta).unwrap();
        assert!(found >= least && found <= least + tolerance(least), "{run:?} {delta:e}: {found} {least} {most}");
    }
}

/// At the generator's bounds of ε, δ is on the right side of the δ they belong to, and close to it.
#[test]
fn delta_is_near_and_never_below() {
    let points = points(&[include_str!("../src/vectors/pld.tsv")]);
    for Point { run, delta, least, most } in points.into_iter().step_by(3) {
        let found = run.delta(ADD, least).unwrap();
        assert!(found >= delta * (1.0 - 1e-9), "{run:?} {least}: {found:e} {delta:e}");
        // Between the two ε, δ falls by what the generator leaves open.
        let below = run.delta(ADD, most).unwrap();
        assert!(below <= delta * 1.005, "{run:?} {most}: {below:e} {delta:e}");
    }
}

/// Every question at the extremes has two bounds in order, or an error that names a value.
#[test]
fn extremes_have_bounds_or_a_named_error() {
    let mut near = 0;
    let mut all = 0;
    for rate in [1e-9, 1e-5, 1.0] {
        for multiplier in [0.2, 1.0, 1e4] {
            for steps in [1, 1_000_000, 1_000_000_000] {
                let run = DpEvent::gaussian(multiplier).poisson(rate).times(steps);
                let delta = 1e-30;
                let (low, high) = run.epsilon_bounds(ADD, delta).unwrap();
                let low = low.unwrap();
                assert!(0.0 <= low && low <= high && high.is_finite(), "{run:?}: {low} {high}");
                all += 1;
                near += usize::from(high - low <= tolerance(low));
            }
        }
    }
    // One step and releases without sampling are exact. Others are an error if their bounds are far apart.
    let many = DpEvent::gaussian(1.0).poisson(0.001).times(1_000_000_000);
    let Err(AccountingError::Imprecise { of: "epsilon", lower, upper }) = many.epsilon(ADD, 1e-5) else { panic!() };
    assert!(lower < upper && many.epsilon_bounds(ADD, 1e-5).unwrap() == (Some(lower), upper));
    println!("{near} of {all} within the tolerance of their lower bound");
    assert!(near >= 20, "{near} of {all}");
    for (run, is) in [
        (DpEvent::gaussian(1.0).poisson(1e-20).times(10), "`sampling_rate`"),
        (DpEvent::Approximate { epsilon: 0.1, delta: 1e-20 }, "`delta` 1e-30"),
        (DpEvent::gaussian(-1.0), "`noise_multiplier`"),
    ] {
        let error = run.epsilon(ADD, 1e-30).unwrap_err().to_string();
        assert!(error.contains(is), "{run:?}: {error}");
    }
    let delta = DpEvent::gaussian(1.0).epsilon(ADD, 0.0);
    assert_eq!(delta, Err(AccountingError::Delta(0.0)));
}

/// A billion releases without sampling, and a δ of 1e-30: `δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)` by mpmath.
#[test]
fn a_billion_releases_are_one() {
    let run = DpEvent::gaussian(1e4).times(1_000_000_000);
    let (low, high) = run.epsilon_bounds(ADD, 1e-30).unwrap();
    assert!(
        low.unwrap() <= 40.830297977 + 1e-8 && high >= 40.830297977 && high - low.unwrap() < 1e-8,
        "{low:?} {high}"
    );
}

/// Counts of nested compositions multiply, or are an error. With μ = 1, ε at 1e-5 is 4.3771780957 by mpmath.
#[test]
fn nested_counts_multiply() {
    let run = DpEvent::gaussian(1e5).times(100_000).times(100_000);
    let (low, high) = run.epsilon_bounds(ADD, 1e-5).unwrap();
    let truth = 4.3771780957;
    assert!(low.unwrap() <= truth + 1e-8 && high >= truth - 1e-10 && high < truth + 1e-6, "{low:?} {high}");
    let tree = DpEvent::Tree { multiplier: 1e10, steps: 3 };
    let zcdp = DpEvent::Concentrated { rho: 1e-20, xi: 0.0 };
    for event in [DpEvent::gaussian(1e9), tree, zcdp, DpEvent::gaussian(1e8).poisson(0.01)] {
        let run = event.times(1 << 40).times(1 << 40);
        for adjacency in [ADD, Adjacency::ZeroOut] {
            let found = run.epsilon(adjacency, 1e-5);
            assert!(matches!(found, Err(AccountingError::Releases | AccountingError::Unsupported { .. })), "{found:?}");
        }
    }
    let twice = DpEvent::Compose(vec![(DpEvent::gaussian(1e9), 1 << 53); 2]);
    assert_eq!(twice.epsilon(ADD, 1e-5), Err(AccountingError::Releases));
}

/// A loss so large that exponentials overflow is an error. It never costs 0.
#[test]
fn overflowing_losses_are_refused() {
    for part in [
        DpEvent::laplace(1e-200),
        DpEvent::laplace(1e-308),
        DpEvent::DiscreteGaussian { sigma: 1e-163, sensitivity: 1 },
        DpEvent::DiscreteLaplace { parameter: 1e300, sensitivity: 100 },
        DpEvent::Approximate { epsilon: 1e300, delta: 0.0 },
    ] {
        for run in
            [part.clone(), DpEvent::Compose(vec![(DpEvent::gaussian(1.0), 1), (part.clone(), 1)]), part.poisson(0.5)]
        {
            assert!(run.epsilon(ADD, 1e-5).is_err() && run.epsilon_by_orders(ADD, 1e-5).is_err(), "{run:?}");
            assert!(run.delta(ADD, 1.0).is_err(), "{run:?}");
        }
    }
    for noise in [5e-324, 1e-308] {
        let answer = DpEvent::RandomizedResponse { noise, buckets: 2 };
        assert!(answer.epsilon(Adjacency::ZeroOut, 1e-5).is_err(), "{noise}");
    }
    // The ends of the ranges. Laplace: 1000 + 2 ln(1 − δ). An (ε, 0) release: ln(e^ε − δ(1 + e^ε)) = ε + ln(1 − δ).
    for (run, truth) in [
        (DpEvent::laplace(0.001), 1000.0 + 2.0 * (1.0f64 - 1e-5).ln()),
        (DpEvent::Approximate { epsilon: 1000.0, delta: 0.0 }, 1000.0 + (1.0f64 - 1e-5).ln()),
    ] {
        let (low, high) = run.epsilon_bounds(ADD, 1e-5).unwrap();
        assert!(low.unwrap() <= truth && truth <= high && high <= 1.005 * truth, "{run:?}: {low:?} {high}");
    }
}

/// Much noise: sampling amplifies, so the δ at ε = 0 is at most that of one Gaussian with μ = √(10⁹)/10¹⁰, 1.26157e-6.
#[test]
fn lower_bounds_hold_for_much_noise() {
    let run = DpEvent::gaussian(1e10).poisson(0.99).times(1_000_000_000);
    let (low, high) = run.delta_bounds(ADD, 0.0).unwrap();
    assert!(low.unwrap() <= 1.26157e-6 && low.unwrap() <= high, "{low:?} {high}");
    let both = DpEvent::Compose(vec![(DpEvent::gaussian(1e10), 1_000_000_000), (DpEvent::laplace(1e9), 1)]);
    let (low, _) = both.epsilon_bounds(ADD, 1e-7).unwrap();
    assert!(low.unwrap() <= 4.64e-6, "{low:?}");
}
