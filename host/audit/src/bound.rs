//! Lower bound on ε from guesses: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023),
//! theorem 5.2.
//!
//! A fair Bernoulli trial decides for each of `m` canaries if it is in the data. Let training be (ε, δ)-DP with respect
//! to each canary. Then of `r` guesses at least `v` are correct with probability at most
//!
//! ```text
//! P[W ≥ v] + 2·m·δ·max_{1 ≤ i ≤ v} P[v > W ≥ v − i] / i,      W ~ Binomial(r, e^ε / (e^ε + 1)).
//! ```
//!
//! [`lower_bound`] is an ε at which that probability is at most `1 − confidence`. This refutes such a mechanism. It
//! also refutes every mechanism of a smaller ε, because that mechanism is (ε, δ)-DP as well. The inequality has to hold
//! for one ε only. Let `v*` be the smallest `v` that refutes any ε above the true ε. A bound above the true ε needs
//! `W ≥ v*`. The theorem for that ε allows this event the probability `1 − confidence`. So the proof does not assume
//! that the probability is monotone in ε or `v`.
//!
//! # Numerics
//!
//! The binomial's weights are relative to the largest: `w_{j+1} = w_j·e^ε·(r − j)/(j + 1)`. Positive numbers are
//! multiplied, added and divided once, so the relative error is below `(16·r + 64)·2^-53`. The result is raised by
//! twice that bound. ε is a multiple of 1e-4, and the search evaluates the probability at exactly that multiple.

/// Multiples of ε per unit: the search has a step of 1e-4.
const STEPS: f64 = 1e4;

/// End of the search. No number of guesses that fits into memory refutes a larger ε.
const LARGEST: u32 = 300_000;

/// Largest number of guesses. The error of their weights stays far below the probabilities of interest.
pub const MOST_GUESSES: u32 = 1 << 20;

/// Returns an upper bound on the probability that `correct` or more of `guesses` guesses are right, if training is (ε,
/// δ)-DP.
///
/// There are `canaries` canaries. `correct` is at most `guesses`, and `guesses` is at most `canaries` and
/// [`MOST_GUESSES`].
#[must_use]
pub fn probability(canaries: u32, guesses: u32, correct: u32, epsilon: f64, delta: f64) -> f64 {
    let weights = weights(guesses, epsilon);
    let (below, from) = weights.split_at(weights.len().min(correct as usize));
    // Sums start at the smallest weight.
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

/// Returns the largest ε that `correct` right guesses refute at this confidence, rounded down to a multiple of 1e-4.
///
/// Returns 0 if they refute no ε.
#[must_use]
pub fn lower_bound(canaries: u32, guesses: u32, correct: u32, delta: f64, confidence: f64) -> f64 {
    let epsilon = |step: u32| f64::from(step) / STEPS;
    // 1 − confidence, rounded down.
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

/// Returns `P[W = j]` for `j` in `0..=guesses`, divided by the largest of them.
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

    /// Rows `m r v delta epsilon p` and `m r v delta confidence epsilon`. `vectors/bound.py` computed them in rationals
    /// and with 60 digits.
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
        // A larger δ explains more correct guesses. A higher confidence gives a smaller bound.
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

    /// Randomised response has exactly its ε. Of 2,000 audits at 99 %, the number that refute it stays within chance.
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
            // Expected: at most 20. The probability of 45 or more is below 1e-6.
            assert!(above > 0 && above < 45, "{above} of 2000 at {epsilon}");
        }
    }
}
