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
