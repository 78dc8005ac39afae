//! From guesses to a lower bound on ε: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023),
//! theorem 5.2.
//!
//! `m` canaries are in the data or not by fair coins. If training is (ε, δ)-DP with respect to each of them, then of `r` guesses
//! at least `v` are right with probability at most
//!
//! ```text
//! P[W ≥ v] + 2·m·δ·max_{1 ≤ i ≤ v} P[v > W ≥ v − i] / i,      W ~ Binomial(r, e^ε / (e^ε + 1)).
//! ```
//!
//! [`lower_bound`] is an ε at which that probability is at most `1 − confidence`: such a mechanism is refuted, and with it every
//! mechanism of a smaller ε, for those are (ε, δ)-DP as well. It has to be so for no more than one ε: let `v*` be the smallest `v`
//! that refutes any ε above the true one. Then a bound above the truth needs `W ≥ v*`, which has the probability allowed by that
//! ε's own theorem. So nothing is assumed of how the probability moves with ε or `v`.
//!
//! # Numerics
//!
//! The binomial's weights are relative to the largest, `w_{j+1} = w_j·e^ε·(r − j)/(j + 1)`: positive numbers multiplied, added and
//! divided once, so that the relative error is below `(16·r + 64)·2^-53`; the result is raised by twice that, and ε is a multiple
//! of 1e-4 that was tried itself.

/// Number of multiples up to 1 that are tried.
const STEPS: f64 = 1e4;

/// End of the search: no number of guesses that fits into memory refutes more.
const LARGEST: u32 = 300_000;

/// Most guesses: their weights' error stays far below the probabilities of interest.
pub const MOST_GUESSES: u32 = 1 << 20;

/// An upper bound on the probability that of `guesses` guesses about `canaries` canaries `correct` or more are right, where training
/// is (ε, δ)-DP.
///
/// `correct` is at most `guesses`, they at most `canaries` and [`MOST_GUESSES`].
#[must_use]
pub fn probability(canaries: u32, guesses: u32, correct: u32, epsilon: f64, delta: f64) -> f64 {
    let weights = weights(guesses, epsilon);
    let (below, from) = weights.split_at(weights.len().min(correct as usize));
    // From the smallest on.
    let total: f64 = below.iter().sum::<f64>() + from.iter().rev().sum::<f64>();
    let beta = from.iter().rev().sum::<f64>() / total;
    let mut mass = 0.0;
    let mut alpha = 0.0f64;
    for (index, weight) in below.iter().rev().enumerate() {
        mass += weight;
        alpha = alpha.max(mass / (index + 1) as f64 / total);
    }
    let error = (16.0 * f64::from(guesses) + 64.0) * f64::EPSILON;
    let bound = beta + 2.0 * f64::from(canaries) * delta * alpha;
    (bound * (1.0 + error) + f64::MIN_POSITIVE).min(1.0)
}

/// The largest ε found, rounded down to a multiple of 1e-4, that so many right guesses refute at this confidence; 0 where they
/// refute none.
#[must_use]
pub fn lower_bound(canaries: u32, guesses: u32, correct: u32, delta: f64, confidence: f64) -> f64 {
    let epsilon = |step: u32| f64::from(step) / STEPS;
    // 1 − confidence, not rounded up.
    let allowed = (1.0 - confidence) * (1.0 - f64::EPSILON);
    let refuted = |step: u32| probability(canaries, guesses, correct, epsilon(step), delta) <= allowed;
    if !refuted(0) {
        return 0.0;
    }
    let (mut refuted_at, mut open) = (0, LARGEST);
    while open - refuted_at > 1 {
        let middle = refuted_at + (open - refuted_at) / 2;
        if refuted(middle) { refuted_at = middle } else { open = middle }
    }
    epsilon(refuted_at)
}

/// `P[W = j]` for `j` in `0..=guesses`, over the largest.
fn weights(guesses: u32, epsilon: f64) -> Vec<f64> {
    let odds = epsilon.exp();
    let mode = (f64::from(guesses) * (odds / (1.0 + odds))).round().min(f64::from(guesses)) as u32;
    let mut weights = vec![0.0; guesses as usize + 1];
    weights[mode as usize] = 1.0;
    for j in mode..guesses {
        weights[j as usize + 1] = weights[j as usize] * (odds * f64::from(guesses - j) / f64::from(j + 1));
    }
    for j in (0..mode).rev() {
        weights[j as usize] = weights[j as usize + 1] * (f64::from(j + 1) / (odds * f64::from(guesses - j)));
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `m r v delta epsilon p` and `m r v delta confidence epsilon`, worked out in rationals and 60 digits by `vectors/bound.py`.
    const VECTORS: &str = include_str!("vectors/bound.tsv");

    fn rows(kind: &str) -> Vec<Vec<f64>> {
        let rows = VECTORS.lines().filter_map(|line| line.strip_prefix(kind));
        rows.map(|row| row.split_whitespace().map(|field| field.parse().unwrap()).collect()).collect()
    }

    // The probability is that of the theorem, and never below it.
    #[test]
    fn probability_is_tight_upper_bound() {
        let rows = rows("probability\t");
        assert!(rows.len() > 100);
        for row in rows {
            let [m, r, v, delta, epsilon, expected] = row[..] else { panic!("{row:?}") };
            let found = probability(m as u32, r as u32, v as u32, epsilon, delta);
            assert!(found >= expected && found <= expected * (1.0 + 1e-9) + 1e-300, "{row:?} {found}");
        }
    }

    // The bound is the largest multiple that is refuted, rounded down.
    #[test]
    fn bound_is_largest_refuted_multiple() {
        let rows = rows("bound\t");
        assert!(rows.len() > 30);
        for row in rows {
            let [m, r, v, delta, confidence, expected] = row[..] else { panic!("{row:?}") };
            let found = lower_bound(m as u32, r as u32, v as u32, delta, confidence);
            assert!(found <= expected && found > expected - 1.01e-4, "{row:?} {found}");
        }
    }

    // The bound is zero for guesses at chance, and grows with correct guesses.
    #[test]
    fn bound_is_zero_at_chance_and_monotone() {
        assert_eq!(lower_bound(1000, 400, 200, 1e-5, 0.999), 0.0);
        assert_eq!(lower_bound(1000, 0, 0, 1e-5, 0.999), 0.0);
        let bounds: Vec<f64> = (0..=400).map(|v| lower_bound(1000, 400, v, 1e-5, 0.999)).collect();
        assert!(bounds.is_sorted() && bounds[400] > 3.0);
        // A larger δ explains more, a greater confidence claims less.
        assert!(lower_bound(1000, 400, 390, 1e-3, 0.999) < bounds[390]);
        assert!(lower_bound(1000, 400, 390, 1e-5, 0.999_99) < bounds[390]);
    }

    // The largest number of guesses causes no overflow.
    #[test]
    fn largest_guess_count_has_no_overflow() {
        let found = probability(MOST_GUESSES, MOST_GUESSES, MOST_GUESSES / 2 + 3000, 0.0, 0.0);
        // 5.86 standard deviations.
        assert!(found > 2.0e-9 && found < 2.6e-9, "{found}");
        assert!(probability(10, 10, 10, 30.0, 0.0) > 0.999_999);
    }

    /// Answers of randomised response, which has exactly its ε: of 2,000 audits at 99 % no more than can be by chance are above.
    #[test]
    fn randomised_response_is_rarely_refuted() {
        let mut random = damper_testing::Random(7);
        for epsilon in [0.5, 2.0f64] {
            let right = 1.0 / (1.0 + (-epsilon).exp());
            let above = (0..2000)
                .filter(|_| {
                    let correct = (0..200).filter(|_| random.unit_f64() < right).count() as u32;
                    lower_bound(200, 200, correct, 0.0, 0.99) > epsilon
                })
                .count();
            // Expected at most 20; 45 has a probability below 1e-6.
            assert!(above > 0 && above < 45, "{above} of 2000 at {epsilon}");
        }
    }
}
