//! Sensitivity, inverse and error of a lower-triangular Toeplitz matrix, from its first column.
//!
//! # Sensitivity
//!
//! X has a row for each step. A sample's rows have a norm of at most 1, and are 0 at steps without the sample. If the
//! entries of C are not negative,
//!
//! ```text
//! ‖CX‖² = Σ_{ij} ⟨X_i, X_j⟩ (CᵀC)_{ij}  ≤  Σ_{ij in the pattern} (CᵀC)_{ij},
//! ```
//!
//! with equality for equal rows of norm 1. If `c_0 ≥ c_1 ≥ … ≥ 0`, the pattern of the largest sum is `0, b, 2b, …`
//! (Kalinin and Lampert, theorem 2): `S² = Σ_t v_t²`, `v_t = Σ_{j<k} c_{t−jb}`. Any other C is bounded entry by entry
//! by the column `max_{i≥j} |c_i|`, which does not increase.

use super::objective::Objective;
use damper_core::noise::Participation;

/// Returns the sensitivity, rounded up. It is exact for a column `c_0 ≥ c_1 ≥ … ≥ 0`, and a bound for any other column.
/// Entries beyond the end of `column` are 0. Takes `O(n)` time and memory for n steps.
///
/// A NaN in the column gives NaN.
///
/// ```
/// use damper_accounting::factor::{Participation, sensitivity};
///
/// let column = [1.0, 0.5];
/// assert!((sensitivity(&column, Participation::single(10)?) - 1.25f64.sqrt()).abs() < 1e-12);
/// assert!((sensitivity(&column, Participation::new(10, 5, 2)?) - 2.5f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[must_use]
pub fn sensitivity(column: &[f64], participation: Participation) -> f64 {
    let [steps, separation, times] =
        [participation.steps(), participation.separation(), participation.participations()]
            .map(|number| number as usize);
    let mut bound = vec![0.0; steps];
    let mut largest = 0.0f64;
    for (bound, entry) in bound.iter_mut().zip(column).rev() {
        largest = if entry.is_nan() { f64::NAN } else { largest.max(entry.abs()) };
        *bound = largest;
        if largest.is_nan() {
            return f64::NAN;
        }
    }
    // The sum of `times` entries `separation` apart ends at each step. Split the entries into blocks of this length: a
    // window is the end of one block and the beginning of the next. So nothing is subtracted, and every rounding error
    // is relative.
    let block = separation * times;
    let mut ends = bound.clone();
    for t in (0..steps).rev() {
        if (t / separation + 1) % times != 0 {
            let next = ends.get(t + separation).copied().unwrap_or(0.0);
            ends[t] += next;
        }
    }
    let mut beginnings = bound;
    let mut square = 0.0;
    for t in 0..steps {
        if (t / separation) % times != 0 {
            beginnings[t] += beginnings[t - separation];
        }
        // A window that begins at a block boundary is the block.
        let is_whole = (t / separation + 1) % times == 0;
        let end = if is_whole || t < block { 0.0 } else { ends[t + separation - block] };
        let window = beginnings[t] + end;
        square += window * window;
    }
    // Sums of non-negative values: each operation errs by at most half a unit in the last place.
    square.sqrt() * (1.0 + (steps + 2 * times + 8) as f64 * f64::EPSILON)
}

/// Returns the first column of the inverse of the matrix with this first column (`column[0]` is 1), `steps` entries.
/// Takes `O(steps · p)` time for `p` entries.
///
/// ```
/// use damper_accounting::factor::inverse;
///
/// assert_eq!(inverse(&[1.0, 0.5], 4), [1.0, -0.5, 0.25, -0.125]);
/// ```
#[must_use]
pub fn inverse(column: &[f64], steps: usize) -> Vec<f64> {
    let mut inverse: Vec<f64> = Vec::with_capacity(steps);
    for t in 0..steps {
        let lags = column.iter().skip(1).zip(inverse.iter().rev());
        let before: f64 = lags.map(|(entry, inverse)| entry * inverse).sum();
        inverse.push(if t == 0 { 1.0 } else { -before });
    }
    inverse
}

/// Returns the error at σ = 1 over `steps` steps of the noise whose matrix has this first column (`column[0]` is 1).
///
/// ```
/// use damper_accounting::factor::{Objective, error};
///
/// // w_t = z_t − z_{t−1}: the sum over all steps is the last z.
/// assert_eq!(error(&[1.0; 4], 4, Objective::Max), 1.0);
/// ```
#[must_use]
pub fn error(column: &[f64], steps: usize, objective: Objective) -> f64 {
    let (mut prefix, mut last, mut total) = (0.0, 0.0, 0.0);
    for entry in inverse(column, steps) {
        prefix += entry;
        last += prefix * prefix;
        total += last;
    }
    match objective {
        Objective::Max => last,
        Objective::Mean => total / steps as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All patterns of at most `times` steps at least `separation` apart.
    fn patterns(steps: usize, separation: usize, times: usize) -> Vec<Vec<usize>> {
        let fits = |set: &u32| {
            let at: Vec<usize> = (0..steps).filter(|t| set >> t & 1 == 1).collect();
            (at.len() <= times && at.windows(2).all(|pair| pair[1] - pair[0] >= separation)).then_some(at)
        };
        (0..1u32 << steps).filter_map(|set| fits(&set)).collect()
    }

    /// `‖C Σ_i s_i e_{t_i}‖`.
    fn norm(column: &[f64], steps: usize, at: &[usize], signs: u32) -> f64 {
        let row = |t: usize| {
            let of = |(i, from): (usize, &usize)| {
                let entry = t.checked_sub(*from).and_then(|lag| column.get(lag)).copied().unwrap_or(0.0);
                if signs >> i & 1 == 1 { -entry } else { entry }
            };
            at.iter().enumerate().map(of).sum::<f64>()
        };
        (0..steps).map(|t| row(t) * row(t)).sum::<f64>().sqrt()
    }

    /// The largest norm over all patterns and signs. The norm is convex, so its maximum is at a corner. More dimensions
    /// give no larger norm if the entries are not negative. With signs, the corner bounds are tight in one dimension.
    fn brute_force(column: &[f64], steps: usize, separation: usize, times: usize, with_signs: bool) -> f64 {
        let mut largest = 0.0f64;
        for at in patterns(steps, separation, times) {
            for signs in 0..if with_signs { 1 << at.len() } else { 1 } {
                largest = largest.max(norm(column, steps, &at, signs));
            }
        }
        largest
    }

    fn of(column: &[f64], steps: usize, separation: usize, times: usize) -> f64 {
        sensitivity(column, Participation::new(steps as u32, separation as u32, times as u32).unwrap())
    }

    // Exact for all non-increasing columns and all schemes of up to 12 steps.
    #[test]
    fn sensitivity_equals_brute_force() {
        let columns: [fn(i32) -> f64; 5] = [
            |_| 1.0,
            |j| 0.8f64.powi(j),
            |j| if j < 3 { 1.0 / f64::from(1 + j) } else { 0.0 },
            |j| 1.0 / f64::from(j + 1).sqrt(),
            |j| if j == 0 { 1.0 } else { 0.3 },
        ];
        for steps in 1..=12usize {
            for column in columns {
                let column: Vec<f64> = (0..steps as i32).map(column).collect();
                for separation in 1..=steps {
                    for times in 1..=steps.div_ceil(separation) {
                        let exact = brute_force(&column, steps, separation, times, steps <= 8);
                        let found = of(&column, steps, separation, times);
                        assert!(found >= exact && found <= exact * (1.0 + 1e-12), "{steps} {separation} {times}");
                    }
                }
            }
        }
    }

    proptest! {
        // A bound for any column. The formula on the entries themselves, or on their absolute values, is not a bound
        // (see below).
        #[test]
        fn any_column_is_bounded(
            column in prop::collection::vec(-1f64..1.0, 1..9), separation in 1usize..9, times in 1usize..9,
        ) {
            let steps = column.len();
            let exact = brute_force(&column, steps, separation.min(steps), times, true);
            prop_assert!(of(&column, steps, separation, times) >= exact);
        }
    }

    /// The sensitivity formula without its running maximum, as a control.
    fn unguarded(column: &[f64], steps: usize, separation: usize, times: usize) -> f64 {
        let at: Vec<usize> = (0..times.min(steps.div_ceil(separation))).map(|j| j * separation).collect();
        norm(column, steps, &at, 0)
    }

    // Controls: if entries increase or signs differ, the pattern 0, b, 2b, … is not the worst.
    #[test]
    fn other_columns_need_the_guard() {
        let increasing = [1.0, 0.0, 0.0, 0.9];
        let exact = brute_force(&increasing, 6, 2, 2, true);
        assert!(unguarded(&increasing, 6, 2, 2) < exact && of(&increasing, 6, 2, 2) >= exact);
        let signed = [1.0, -0.9];
        let exact = brute_force(&signed, 3, 1, 2, true);
        assert!(unguarded(&signed, 3, 1, 2) < exact && of(&signed, 3, 1, 2) >= exact);
    }

    // With p bands and a separation of at least p, rows do not overlap.
    #[test]
    fn separated_bands_add_in_squares() {
        let column = [1.0, 0.7, 0.5];
        let square: f64 = column.iter().map(|entry| entry * entry).sum();
        let found = of(&column, 40, 5, 4);
        assert!((found - (4.0 * square).sqrt()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn inverse_times_column_is_identity() {
        let column: Vec<f64> = (0..40).map(|j| 0.9f64.powi(j) / f64::from(1 + j)).collect();
        let inverse = inverse(&column, 40);
        for t in 0..40 {
            let product: f64 = (0..=t).map(|j| column[j] * inverse[t - j]).sum();
            assert!((product - f64::from(u8::from(t == 0))).abs() < 1e-14);
        }
    }

    // The square root of the prefix sum (Fichtenberger et al.): the known root losses.
    #[test]
    fn best_toeplitz_has_known_loss() {
        for (steps, loss) in [(100u32, 2.53135211), (1000, 3.26500308)] {
            let mut column = vec![1.0f64];
            for i in 1..steps as usize {
                column.push(column[i - 1] * (2 * i - 1) as f64 / (2 * i) as f64);
            }
            let single = Participation::single(steps).unwrap();
            let found = sensitivity(&column, single) * error(&column, steps as usize, Objective::Max).sqrt();
            assert!((found - loss).abs() < 1e-7 * loss, "{found}");
        }
    }

    // λ = 15/16 at n 1000, b 100, k 10. The identity at every scheme.
    #[test]
    fn lambda_and_identity_have_known_losses() {
        let column: Vec<f64> = (0..1000).map(|j| 0.9375f64.powi(j)).collect();
        let sensitivity = of(&column, 1000, 100, 10);
        assert!((sensitivity - 9.10027397).abs() < 1e-7, "{sensitivity}");
        let loss = |objective| sensitivity * error(&column, 1000, objective).sqrt();
        assert!((loss(Objective::Mean) - 15.63333805).abs() < 1e-6);
        assert!((loss(Objective::Max) - 20.14913225).abs() < 1e-6);
        assert!((of(&[1.0], 1000, 100, 10) * error(&[1.0], 1000, Objective::Max).sqrt() - 100.0).abs() < 1e-9);
        assert!((error(&[1.0], 999, Objective::Mean) - 500.0).abs() < 1e-9);
    }

    // Banded columns of the table: c over its norm, one participation, the mean over 200 steps.
    #[test]
    fn banded_columns_have_known_losses() {
        let tables: [(&[f64], f64); 2] =
            [(&[0.77868853, 0.62741069], 7.22574345), (&[0.64801373, 0.49249858, 0.43589096, 0.38408649], 5.33586778)];
        for (table, loss) in tables {
            let column: Vec<f64> = table.iter().map(|entry| entry / table[0]).collect();
            let found = of(&column, 200, 200, 1) * error(&column, 200, Objective::Mean).sqrt();
            assert!((found - loss).abs() < 1e-6 * loss, "{found}");
        }
    }
}
