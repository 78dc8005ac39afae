//! Buffered linear Toeplitz matrices (BLT): `c_j = Σ_i ω_i θ_i^{j−1}` for j ≥ 1, `c_0 = 1`.
//!
//! The generating function is `C(x) = ∏_i (1 − θ̂_i x) / (1 − θ_i x)`, so the inverse is a BLT with the decays θ̂. With
//! `1 > θ_1 > θ̂_1 > θ_2 > … > θ_d > θ̂_d ≥ 0` the ω are positive and the ω̂ negative, and
//! `1 − Σ ω_i/θ_i = ∏ θ̂_i/θ_i ≥ 0`, so `c_0 ≥ c_1 ≥ …`.
//!
//! # Closed forms
//!
//! *Sensitivity.* Between two steps of the worst pattern the sum `v_t` is `Σ_i ω_i u_i θ_i^s`, with `u` the buffers
//! after the first of them. So each block of b steps adds a few geometric sums, in `O(k·d²)` time for any n.
//!
//! *Error.* `A_j = A + Σ_i h_i θ̂_i^j` with `A = ∏ (1 − θ_i)/(1 − θ̂_i)` and `h_i = −ω̂_i/(1 − θ̂_i) ≥ 0`. So the sums
//! of `A_j²` are sums of geometric sums, and all terms are positive.

use super::objective::Objective;
use damper_core::noise::Participation;

/// A BLT, stored as its decays. The output scales follow from them.
///
/// ```
/// use damper_accounting::factor::{BltMatrix, Objective, Participation, inverse, optimize};
///
/// let run = Participation::new(200, 20, 10)?;
/// let blt = optimize(run, 1, Objective::Max)?;
/// let (c, root) = (blt.column(200), blt.root_loss(run, Objective::Max));
/// assert!(c[0] == 1.0 && c.windows(2).all(|pair| pair[1] <= pair[0]));
/// assert!((root - blt.sensitivity(run) * blt.error(200, Objective::Max).sqrt()).abs() < 1e-9 * root);
/// // C and C⁻¹ are both BLTs, with as many decays as scales.
/// assert_eq!((blt.theta().len(), blt.theta_hat().len()), (blt.omega().len(), blt.omega_hat().len()));
/// assert_eq!(inverse(&c, 2)[1], -c[1]);
/// assert_eq!(BltMatrix::of_decays(&[]).unwrap().column(3), [1.0, 0.0, 0.0]);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct BltMatrix {
    /// θ, descending.
    theta: Vec<f64>,
    /// θ̂, descending.
    theta_hat: Vec<f64>,
}

impl BltMatrix {
    /// The BLT with these decays, interleaved as θ_1, θ̂_1, θ_2, … An empty list is the identity. `None` unless the
    /// decays descend from below 1 to at least 0, with all but the last above 0.
    #[must_use]
    pub fn of_decays(decays: &[f64]) -> Option<Self> {
        let is_descending = decays.windows(2).all(|pair| pair[0] > pair[1]);
        let is_in_range = decays.iter().all(|decay| *decay >= 0.0 && *decay < 1.0);
        if !(is_descending && is_in_range && decays.len().is_multiple_of(2)) {
            return None;
        }
        Some(Self {
            theta: decays.iter().step_by(2).copied().collect(),
            theta_hat: decays.iter().skip(1).step_by(2).copied().collect(),
        })
    }

    /// The decays of C, descending.
    #[must_use]
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The decays of C⁻¹, descending.
    #[must_use]
    pub fn theta_hat(&self) -> &[f64] {
        &self.theta_hat
    }

    /// The scales of C, above 0.
    #[must_use]
    pub fn omega(&self) -> Vec<f64> {
        scales(&self.theta, &self.theta_hat)
    }

    /// The scales of C⁻¹, below 0.
    #[must_use]
    pub fn omega_hat(&self) -> Vec<f64> {
        scales(&self.theta_hat, &self.theta)
    }

    /// The first `steps` entries of the first column of C.
    #[must_use]
    pub fn column(&self, steps: usize) -> Vec<f64> {
        let mut powers = self.omega();
        let entry = |j: usize| {
            if j == 0 {
                return 1.0;
            }
            let entry = powers.iter().sum();
            powers.iter_mut().zip(&self.theta).for_each(|(power, theta)| *power *= theta);
            entry
        };
        (0..steps).map(entry).collect()
    }

    /// The sensitivity, to a few rounding errors. The accountant uses the sensitivity of the coefficients that run,
    /// rounded up.
    #[must_use]
    pub fn sensitivity(&self, participation: Participation) -> f64 {
        let omega = self.omega();
        let (steps, separation) = (participation.steps() as usize, participation.separation() as usize);
        // Steps after the first of a whole block, and of the last block.
        let whole = Decaying::new(&self.theta, separation - 1);
        let last = Decaying::new(&self.theta, (steps - 1) % separation);
        let mut buffers = vec![0.0; omega.len()];
        let mut square = 0.0;
        let blocks = steps.div_ceil(separation);
        for block in 0..blocks {
            let takes_part = f64::from(u8::from(block < participation.participations() as usize));
            let first = takes_part + dot(&omega, &buffers);
            square += first * first;
            for (buffer, theta) in buffers.iter_mut().zip(&self.theta) {
                *buffer = *buffer * theta + takes_part;
            }
            let rest = if block + 1 < blocks { &whole } else { &last };
            let mut terms = 0.0;
            for (i, row) in rest.sums.chunks_exact(omega.len().max(1)).enumerate() {
                for (j, sum) in row.iter().enumerate() {
                    terms += omega[i] * buffers[i] * omega[j] * buffers[j] * sum;
                }
            }
            square += terms;
            buffers.iter_mut().zip(&rest.powers).for_each(|(buffer, power)| *buffer *= power);
        }
        square.sqrt()
    }

    /// The error at σ = 1.
    #[must_use]
    pub fn error(&self, steps: usize, objective: Objective) -> f64 {
        let distances = self.theta.iter().zip(&self.theta_hat).map(|(theta, hat)| (1.0 - theta) / (1.0 - hat));
        let limit: f64 = distances.product();
        let weights: Vec<f64> =
            self.omega_hat().iter().zip(&self.theta_hat).map(|(omega, hat)| -omega / (1.0 - hat)).collect();
        let sum = |distance| prefix_weighted(distance, steps, objective);
        let mut error = limit * limit * sum(0.0);
        for (i, (weight, hat)) in weights.iter().zip(&self.theta_hat).enumerate() {
            error += 2.0 * limit * weight * sum(1.0 - hat);
            for (other, other_hat) in weights.iter().zip(&self.theta_hat).take(i) {
                error += 2.0 * weight * other * sum(distance_of_product(*hat, *other_hat));
            }
            error += weight * weight * sum(distance_of_product(*hat, *hat));
        }
        error
    }

    /// `S·√error`.
    #[must_use]
    pub fn root_loss(&self, participation: Participation, objective: Objective) -> f64 {
        self.sensitivity(participation) * self.error(participation.steps() as usize, objective).sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `∏_j (a_i − b_j) / ∏_{j≠i} (a_i − a_j)`.
fn scales(decays: &[f64], others: &[f64]) -> Vec<f64> {
    let scale = |(i, decay): (usize, &f64)| {
        // Multiply and divide in turn: the values interlace, so the product stays in range.
        let mut scale = 1.0;
        for (j, other) in others.iter().enumerate() {
            scale *= decay - other;
            if let Some(own) = decays.get(j).filter(|_| j != i) {
                scale /= decay - own;
            }
        }
        scale
    };
    decays.iter().enumerate().map(scale).collect()
}

/// `1 − ab`, from a and b below 1.
fn distance_of_product(a: f64, b: f64) -> f64 {
    (1.0 - a) + a * (1.0 - b)
}

/// State of the buffers over some steps.
struct Decaying {
    /// `θ_i^steps`.
    powers: Vec<f64>,
    /// `Σ_{s<steps} (θ_iθ_j)^s`, row by row.
    sums: Vec<f64>,
}

impl Decaying {
    fn new(theta: &[f64], steps: usize) -> Self {
        let pairs = theta.iter().flat_map(|a| theta.iter().map(|b| distance_of_product(*a, *b)));
        Self {
            powers: theta.iter().map(|theta| power(1.0 - theta, steps)).collect(),
            sums: pairs.map(|distance| geometric(distance, steps)).collect(),
        }
    }
}

/// `(1 − distance)^steps`.
fn power(distance: f64, steps: usize) -> f64 {
    if steps == 0 { 1.0 } else { libm::exp(steps as f64 * libm::log1p(-distance)) }
}

/// `Σ_{j<steps} r^j` with r = 1 − `distance`.
fn geometric(distance: f64, steps: usize) -> f64 {
    let n = steps as f64;
    if distance * n < 1e-3 {
        return series(distance, n, 1.0);
    }
    -libm::expm1(n * libm::log1p(-distance)) / distance
}

/// `Σ_{j<n} r^j` of the largest prefix, or the mean `Σ_{j<n} (1 − j/n) r^j` over all prefixes, with r = 1 − `distance`.
fn prefix_weighted(distance: f64, steps: usize, objective: Objective) -> f64 {
    let n = steps as f64;
    match objective {
        Objective::Max => geometric(distance, steps),
        Objective::Mean if distance * n < 1e-2 => series(distance, n + 1.0, 2.0) / n,
        Objective::Mean => (1.0 - (1.0 - distance) * geometric(distance, steps) / n) / distance,
    }
}

/// `Σ_k (−distance)^k·binomial(n, k + first)`, for a small `distance·n`.
fn series(distance: f64, n: f64, first: f64) -> f64 {
    let mut term = if first == 1.0 { n } else { n * (n - 1.0) / 2.0 };
    let (mut sum, mut k) = (term, first);
    for _ in 0..8 {
        term *= -distance * (n - k) / (k + 1.0);
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::toeplitz::{error, inverse, sensitivity};
    use super::*;

    fn interlaced() -> [BltMatrix; 4] {
        let blts: [&[f64]; 4] = [
            &[0.9, 0.4],
            &[0.9980772390, 0.99, 0.9079920195, 0.2],
            &[0.999, 0.99, 0.98, 0.92, 0.74, 0.33],
            &[0.999999, 0.9, 0.5, 0.0],
        ];
        blts.map(|decays| BltMatrix::of_decays(decays).unwrap())
    }

    #[test]
    fn closed_forms_equal_sums() {
        for blt in interlaced() {
            for (steps, separation, times) in
                [(1, 1, 1), (2, 1, 2), (7, 3, 2), (50, 50, 1), (60, 7, 5), (61, 10, 7), (300, 100, 3), (300, 100, 2)]
            {
                let participation = Participation::new(steps, separation, times).unwrap();
                let steps = steps as usize;
                let column = blt.column(steps);
                let by_sums = sensitivity(&column, participation);
                let closed = blt.sensitivity(participation);
                assert!((closed / by_sums - 1.0).abs() < 1e-11, "{steps} {separation} {times}: {closed} {by_sums}");
                for objective in [Objective::Max, Objective::Mean] {
                    let by_sums = error(&column, steps, objective);
                    let closed = blt.error(steps, objective);
                    assert!((closed / by_sums - 1.0).abs() < 1e-9, "{steps} {objective:?}: {closed} {by_sums}");
                }
            }
        }
    }

    // C⁻¹ has the decays θ̂ and the scales ω̂, which are negative. The column of C does not increase.
    #[test]
    fn inverse_has_the_other_decays() {
        for blt in interlaced() {
            let column = blt.column(60);
            assert!(column.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] > 0.0));
            let mut powers = blt.omega_hat();
            assert!(powers.iter().all(|omega| *omega <= 0.0) && blt.omega().iter().all(|omega| *omega > 0.0));
            for entry in &inverse(&column, 60)[1..] {
                assert!((entry - powers.iter().sum::<f64>()).abs() < 1e-12);
                powers.iter_mut().zip(blt.theta_hat()).for_each(|(power, hat)| *power *= hat);
            }
        }
    }

    // λ as a BLT: θ = ω = λ, θ̂ = 0.
    #[test]
    fn lambda_is_a_blt() {
        let blt = BltMatrix::of_decays(&[0.9375, 0.0]).unwrap();
        assert_eq!((blt.omega(), blt.omega_hat()), (vec![0.9375], vec![-0.9375]));
        let participation = Participation::new(1000, 100, 10).unwrap();
        assert!((blt.root_loss(participation, Objective::Mean) - 15.63333805).abs() < 1e-6);
    }

    #[test]
    fn wrong_decays_are_refused() {
        for decays in [&[0.5][..], &[0.5, 0.6], &[1.0, 0.5], &[0.5, 0.5], &[0.5, -0.1], &[f64::NAN, 0.1]] {
            assert_eq!(BltMatrix::of_decays(decays), None, "{decays:?}");
        }
        let identity = BltMatrix::of_decays(&[]).unwrap();
        let participation = Participation::new(100, 10, 10).unwrap();
        assert!((identity.root_loss(participation, Objective::Max) - 1000f64.sqrt()).abs() < 1e-9);
        assert!((identity.root_loss(participation, Objective::Mean) - 505f64.sqrt()).abs() < 1e-9);
    }

    // The geometric sums of a decay close to 1 lose no digits.
    #[test]
    fn sums_near_one_are_exact() {
        for (distance, steps) in [(2f64.powi(-30), 1000usize), (1e-6, 900), (1e-5, 990), (1e-3, 2), (0.3, 7)] {
            let (mut plain, mut mean) = (0.0, 0.0);
            for j in 0..steps {
                let power = libm::exp(j as f64 * libm::log1p(-distance));
                plain += power;
                mean += power * (1.0 - j as f64 / steps as f64);
            }
            assert!((geometric(distance, steps) / plain - 1.0).abs() < 1e-12);
            assert!((prefix_weighted(distance, steps, Objective::Mean) / mean - 1.0).abs() < 1e-11);
        }
    }
}
