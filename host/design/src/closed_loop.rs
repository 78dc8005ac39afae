//! A filter inside SGD: its effect on the iterates, not only on the gradient.
//!
//! On a quadratic with curvature `h` and white noise `w` in the gradient, `x⁺ = x − η·(B/A)(h·x + w)`. The
//! characteristic polynomial is `(z − 1)·A(z) + u·B(z)` with `u = η·h`. A delay in the loop lowers the largest stable
//! `u` (2 for plain SGD), and a lead raises it. The gain at frequency 0 stays 1, so a small `u` hardly changes the
//! noise of the iterates.
//!
//! # Numerics
//!
//! Noise powers are exact up to rounding. The integral of `|B/A|²` uses the recursion of Åström and Jury, which also
//! determines stability (Åström, "Introduction to Stochastic Control Theory", chapter 5).

use super::Coefficients;

/// Returns `Σ κ_r²` of `B/A` for `b = {b_0, …}` and `a = {1, a_1, …}`, both by falling powers of `z` from the same
/// power. Returns `None` if a pole is not inside the unit circle.
#[must_use]
pub fn noise_power(a: &[f64], b: &[f64]) -> Option<f64> {
    let len = a.len().max(b.len());
    let padded = |of: &[f64]| -> Vec<f64> { of.iter().copied().chain(std::iter::repeat(0.0)).take(len).collect() };
    let (mut a, mut b) = (padded(a), padded(b));
    let mut power = 0.0;
    while let (Some(&last_a), Some(&last_b), Some(&first)) = (a.last(), b.last(), a.first()) {
        // NaN counts as unstable.
        if first.is_nan() || first <= 0.0 {
            return None;
        }
        power += last_b * last_b / first;
        let (alpha, beta) = (last_a / first, last_b / first);
        let lower = a.len() - 1;
        b = (0..lower).map(|i| b[i] - beta * a[lower - i]).collect();
        a = (0..lower).map(|i| a[i] - alpha * a[lower - i]).collect();
    }
    Some(power)
}

/// Returns the noise power from the gradient's noise to the iterate, divided by `η²`. Returns `None` if the loop is
/// unstable.
fn loop_power(filter: &Coefficients, u: f64) -> Option<f64> {
    let order = filter.order();
    let gain = filter.dc_gain();
    let a = |i: usize| if i == 0 { 1.0 } else { filter.a.get(i - 1).copied().unwrap_or(0.0) };
    let b = |i: usize| filter.b.get(i).copied().unwrap_or(0.0) / gain;
    let numerator: Vec<f64> = (0..order + 2).map(|i| if i == 0 { 0.0 } else { b(i - 1) }).collect();
    let open = |i: usize| if i == 0 { 1.0 } else { a(i) - a(i - 1) };
    let denominator: Vec<f64> =
        (0..order + 2).map(|i| if i == order + 1 { -a(order) } else { open(i) } + u * numerator[i]).collect();
    noise_power(&denominator, &numerator)
}

/// Returns the largest `learning rate × curvature` below which SGD with this filter (with its DC gain corrected to 1)
/// is stable.
#[must_use]
pub fn largest_stable_step(filter: &Coefficients) -> f64 {
    let mut stable = 1e-9;
    let mut unstable = stable;
    while unstable < 1e12 && loop_power(filter, unstable).is_some() {
        (stable, unstable) = (unstable, 1.01 * unstable);
    }
    for _ in 0..60 {
        let middle = 0.5 * (stable + unstable);
        if loop_power(filter, middle).is_some() { stable = middle } else { unstable = middle }
    }
    stable
}

/// Returns the stationary variance of the iterate relative to SGD without a filter, at `learning rate × curvature = u`.
/// Returns `None` if either of them is unstable.
#[must_use]
pub fn variance_ratio(filter: &Coefficients, u: f64) -> Option<f64> {
    let plain = Coefficients { a: vec![], b: vec![1.0] };
    Some(loop_power(filter, u)? / loop_power(&plain, u)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_loop_is_that_of_the_table() {
        // Names, largest stable u, and Var(x) over SGD's at u = 0.01, 0.1, 0.5, 1, 1.5.
        type Row = (&'static [&'static str], f64, [Option<f64>; 5]);
        let table: &[Row] = &[
            (&["sgd", "p0"], 2.0, [1.0, 1.0, 1.0, 1.0, 1.0].map(Some)),
            (&["momentum", "p4"], 38.0, [0.995, 0.953, 0.760, 0.514, 0.260].map(Some)),
            (&["p6"], 19.0, [0.991, 0.914, 0.632, 0.370, 0.167].map(Some)),
            (&["d1v2"], 10.0, [0.992, 0.923, 0.663, 0.407, 0.193].map(Some)),
            (&["p1"], 8.0, [0.996, 0.962, 0.800, 0.571, 0.308].map(Some)),
            (&["p3"], 16.0 / 3.0, [0.995, 0.953, 0.770, 0.538, 0.289].map(Some)),
            (&["f1"], 4.0, [0.998, 0.975, 0.860, 0.671, 0.404].map(Some)),
            (&["p7"], 3.0, [0.998, 0.983, 0.900, 0.750, 0.500].map(Some)),
            (&["d1v1", "f3", "f4", "p2", "p5"], 2.0, [1.0, 1.0, 1.0, 1.0, 1.0].map(Some)),
            (&["f2"], 4.0 / 3.0, [Some(1.003), Some(1.028), Some(1.204), Some(2.013), None]),
            (&["f5"], 40.0 / 39.0, [Some(1.005), Some(1.053), Some(1.463), Some(20.0), None]),
            (&["d2"], 20.0 / 57.0, [Some(1.024), Some(1.329), None, None, None]),
            (&["f6"], 6.0 / 37.0, [Some(1.060), Some(2.478), None, None, None]),
        ];
        for (names, u, ratios) in table {
            for name in *names {
                let filter = Coefficients::named(name).unwrap();
                let found = largest_stable_step(&filter);
                assert!((found / u - 1.0).abs() < 1e-6, "{name} {found}");
                for (at, expected) in [0.01, 0.1, 0.5, 1.0, 1.5].into_iter().zip(ratios) {
                    let found = variance_ratio(&filter, at);
                    assert_eq!(found.is_some(), expected.is_some(), "{name} {at} {found:?}");
                    if let (Some(found), Some(expected)) = (found, expected) {
                        let digit = if *expected >= 10.0 { 0.1 } else { 0.001 };
                        assert!((found - expected).abs() < 0.51 * digit, "{name} {at} {found}");
                    }
                }
            }
        }
        assert!(table.iter().map(|(names, ..)| names.len()).sum::<usize>() == damper_core::filter::SETS.len());
    }

    #[test]
    fn one_pole_average_has_closed_form() {
        let kappa = 0.7;
        let filter = Coefficients { a: vec![kappa - 1.0], b: vec![kappa] };
        assert!((largest_stable_step(&filter) / (2.0 * (2.0 - kappa) / kappa) - 1.0).abs() < 1e-9);
        for u in [0.001, 0.01, 0.1, 0.5, 1.0, 1.5] {
            let expected = (2.0 - kappa) * (2.0 - u) / (2.0 * (2.0 - kappa) - kappa * u);
            assert!((variance_ratio(&filter, u).unwrap() / expected - 1.0).abs() < 1e-9, "{u}");
        }
    }

    #[test]
    fn the_noise_power_is_the_sum_of_squares() {
        for set in damper_core::filter::SETS {
            let filter = Coefficients::named(set.name).unwrap();
            let with_one: Vec<f64> = [1.0].into_iter().chain(filter.a.clone()).collect();
            let sum: f64 = filter.impulse_response(3000).iter().map(|k| k * k).sum();
            let power = noise_power(&with_one, &filter.b).unwrap();
            assert!((power / sum - 1.0).abs() < 1e-10, "{} {power} {sum}", set.name);
        }
        assert_eq!(noise_power(&[1.0, -1.0], &[1.0]), None);
        assert_eq!(noise_power(&[1.0, -1.1], &[1.0]), None);
    }
}
