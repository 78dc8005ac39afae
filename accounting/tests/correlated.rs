//! Correlated noise of the core, compared with the matrices that this crate factorises, and its privacy cost.

use damper_accounting::factor::{FactorizeQuery, Objective, Participation, error, sensitivity};
use damper_accounting::pld::{self, Neighbours};
use damper_core::grid::Grid;
use damper_core::noise::{Banded, Blt, CorrelatedGaussian, Correlation, Lambda, NoiseWord};
use libm::{erf, exp, sqrt};

/// Compares the core's sensitivity and error with sums over the column, for all schemes of up to 12 steps and for long
/// schemes.
fn agrees<K: Correlation>(correlation: K, column: impl Fn(usize) -> Vec<f64>) {
    let short = (1..=12u32).flat_map(|n| (1..=n).flat_map(move |b| (1..=n.div_ceil(b)).map(move |k| (n, b, k))));
    for (steps, separation, times) in short.chain([(1000, 100, 10), (1000, 7, 20), (500, 500, 1)]) {
        let participation = Participation::new(steps, separation, times).unwrap();
        let column = column(steps as usize);
        let (found, exact) = (correlation.sensitivity(participation), sensitivity(&column, participation));
        // Both are rounded up.
        assert!((found / exact - 1.0).abs() < 1e-11, "{correlation:?} {steps} {separation} {times}: {found} {exact}");
        let (found, exact) = (correlation.error(participation), error(&column, steps as usize, Objective::Max));
        assert!((found / exact - 1.0).abs() < 1e-9, "{correlation:?} {steps}: {found} {exact}");
    }
}

#[test]
fn core_and_matrix_agree() {
    let lambda = Lambda::new(15, 4).unwrap();
    agrees(lambda, |steps| (0..steps).map(|j| lambda.value().powi(j as i32)).collect());
    let blt = Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381]).unwrap();
    let (theta, omega) = (blt.theta(), blt.omega());
    let entry = |j: usize| match j {
        0 => 1.0,
        _ => (0..2).map(|i| omega[i] * theta[i].powi(j as i32 - 1)).sum(),
    };
    agrees(blt, |steps| (0..steps).map(entry).collect());
    let banded = Banded::new([1.0, 0.76, 0.6726, 0.5927]).unwrap();
    agrees(banded, |_| banded.column().to_vec());
}

// A device can load the output of `damper factorize`, even if a decay of the inverse is 0. The rounded table is as
// good.
#[test]
fn printed_tables_fit_a_device() {
    for (steps, separation, times, objective) in [
        (1000, 100, 10, Objective::Max),
        (1000, 100, 10, Objective::Mean),
        (10_000, 2, 3000, Objective::Mean),
        (50, 50, 1, Objective::Max),
        (10, 3, 3, Objective::Mean),
    ] {
        let query = FactorizeQuery { steps, buffers: 2, pattern: Some((separation, times)), objective };
        let found = query.answer().unwrap();
        let run = Participation::new(steps as u32, separation as u32, times as u32).unwrap();
        let sensitivity = match (&found.theta[..], &found.omega[..]) {
            ([theta], [omega]) => Blt::new([*theta], [*omega]).unwrap().sensitivity(run),
            ([a, b], [c, d]) => Blt::new([*a, *b], [*c, *d]).unwrap().sensitivity(run),
            _ => panic!("{found}"),
        };
        assert!((sensitivity / found.sensitivity - 1.0).abs() < 1e-5, "{sensitivity} {found}");
    }
}

/// δ at ε of one Gaussian release of this multiplier (Balle and Wang 2018).
fn gaussian_delta(multiplier: f64, epsilon: f64) -> f64 {
    let normal = |x: f64| 0.5 * (1.0 + erf(x / sqrt(2.0)));
    let half = 0.5 / multiplier;
    normal(half - epsilon * multiplier) - exp(epsilon) * normal(-half - epsilon * multiplier)
}

// A whole run costs as much as one release of multiplier σ/β. The bound is tight.
#[test]
fn run_costs_one_release() {
    let run = Participation::new(1000, 100, 10).unwrap();
    let blt = Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381]).unwrap();
    for multiplier in [0.5, 1.0, 4.0] {
        let grid = Grid::new(16).unwrap();
        let mechanism =
            CorrelatedGaussian::<i64, _, Vec<NoiseWord>>::with_multiplier(grid, multiplier, blt, run, 650).unwrap();
        // R: the rounding of 1000 steps on 650 coordinates is a small part on this grid.
        assert!(mechanism.rounding_share() < 2e-3 && mechanism.rounding_share() > 1e-3);
        let event = mechanism.event().unwrap();
        let epsilon = pld::of_discrete(&[(event, 1)], Neighbours::AddOrRemove, 1e-5).unwrap();
        assert!(gaussian_delta(event.multiplier(), epsilon) <= 1e-5);
        assert!(gaussian_delta(event.multiplier(), epsilon * 0.997) > 1e-5, "{multiplier}: {epsilon}");
    }
}
