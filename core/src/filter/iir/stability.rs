//! Schur–Cohn recursion: checks that all poles are inside the unit circle, without computing them.
//!
//! Let `A_m(z) = z^m + a_1·z^{m−1} + … + a_m` with `k = a_m`, and its reverse `A_m*(z) = z^m·A_m(1/z)`. The step
//! `(1 − k²)·z·A_{m−1} = A_m − k·A_m*` lowers the degree by one. All roots of `A_m` are inside the circle exactly if
//! `|k| < 1` at every degree:
//!
//! - `|k|` is the product of the moduli of the roots, so `|k| ≥ 1` leaves a root on or outside the circle.
//! - If `|k| < 1`, then on the circle `|A_m*| = |A_m|`. So `|k·A_m*| < |A_m|` unless `A_m` is zero. By Rouché's theorem
//!   both sides have equally many roots inside.
//! - A root of `A_m` on the circle is also a root of `A_m*`, and stays a root of `A_{m−1}`.
//!
//! # Numerics
//!
//! In f64, from f32 coefficients. A pole so near the circle that rounding could misplace it has a step response that
//! does not settle. It is rejected for that reason.

use crate::numerics::order::is_at_most;

/// Largest number below 1.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

/// Returns a bound on the square of every later value of `x_t = −Σ a_r·x_{t−r}`, from its last `K` values, oldest
/// first. Returns `None` if a root of `z^K + a_1·z^{K−1} + … + a_K` is not inside the unit circle. Overwrites `a`.
///
/// Let `R` be the covariance (`K × K`, diagonal `r_0`) of the autoregressive process with these coefficients, and `F`
/// the companion matrix. Then `F R Fᵀ ≤ R`, so `xᵀ R⁻¹ x` never grows along the recursion, and each squared entry is at
/// most `r_0·xᵀ R⁻¹ x`. The prediction errors `e_m` of the polynomials of degree `m = 0..K−1` diagonalise `R`:
/// `r_0·xᵀ R⁻¹ x = Σ_m e_m² / Π_{i≤m} (1 − k_i²)`.
pub(super) fn peak_squared(a: &mut [f64], last: &[f64]) -> Option<f64> {
    let (mut a, mut last) = (a, last);
    let mut peak = 0.0;
    while let Some((&mut k, lower)) = a.split_last_mut() {
        // NaN counts as not inside.
        if !is_at_most(k, BELOW_ONE) {
            return None;
        }
        let shrink = (1.0 - k) * (1.0 + k);
        let mut pairs = lower.iter_mut();
        while let Some(front) = pairs.next() {
            match pairs.next_back() {
                Some(back) => (*front, *back) = ((*front - k * *back) / shrink, (*back - k * *front) / shrink),
                None => *front /= 1.0 + k,
            }
        }
        let (newest, older) = last.split_last()?;
        let error = lower.iter().zip(older.iter().rev()).fold(*newest, |error, (a, x)| error + a * x);
        peak = error * error + peak / shrink;
        (a, last) = (lower, older);
    }
    Some(peak)
}
