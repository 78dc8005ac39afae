//! The candidates of a search: their number, their settings and their seeds, drawn by Bernoulli trials on integers.
//!
//! Every probability here is a quotient of integers, so the number has exactly the distribution that is accounted.
//!
//! - Truncated negative binomial, `P[k] ∝ (1−γ)^(k−1) Π_{0<l<k} (l+η)/(l+1)`: draws a geometric number k. Accepts it if
//!   all trials with probabilities `(l+η)/(l+1) ≤ 1` succeed. Otherwise draws again.
//! - Poisson of mean m, `P[k] ∝ m^k/k!`: draws a geometric number k with `P[k] ∝ (m/(m+1))^k`. Accepts it with
//!   probability `((m+1)^k/k!) / ((m+1)^c/c!)`, with c = ⌊m+1⌋ the position of the maximum. That is a product of trials
//!   with probabilities `(m+1)/j ≤ 1` above c, and `j/(m+1) ≤ 1` below c.

use crate::TrainError;
use crate::engine::generator::{self, RunGenerator};
use damper_accounting::CandidateCount;
use damper_accounting::selection::Fraction;
use damper_core::noise::{Address, Generator, Purpose};
use rand_core::Rng;

/// One candidate of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The index of its settings in the public list.
    pub settings: usize,
    /// The seed of a simulation. `None` for a private candidate, which has a key of its own.
    pub seed: Option<u64>,
}

/// Draws the candidates of a search among `settings` settings, in training order. The key comes from the operating
/// system, or from `seed` in a simulation. The result is secret.
///
/// # Errors
///
/// The operating system returns no key.
pub fn candidates(count: CandidateCount, settings: usize, seed: Option<u64>) -> Result<Vec<Candidate>, TrainError> {
    let mut key = generator::key(seed)?;
    Ok(drawn(count, settings, seed.is_some(), &generator::generator(seed, &mut key)))
}

fn drawn(count: CandidateCount, settings: usize, is_simulation: bool, generator: &RunGenerator) -> Vec<Candidate> {
    let mut words = generator.stream(Address { purpose: Purpose::Search, step: 0, chunk: 0 });
    let number = number(count, &mut words);
    let each = |_| Candidate {
        settings: below(settings as u64, &mut words) as usize,
        seed: is_simulation.then(|| words.next_u64()),
    };
    (0..number).map(each).collect()
}

fn number<R: Rng>(count: CandidateCount, words: &mut R) -> u64 {
    match count {
        CandidateCount::NegativeBinomial { shape, success } => negative_binomial(shape, success, words),
        CandidateCount::Poisson { mean } => poisson(mean, words),
    }
}

fn negative_binomial<R: Rng>(shape: Fraction, success: Fraction, words: &mut R) -> u64 {
    let (success, of) = (success.numerator() as u64, success.denominator() as u64);
    let (shape, unit) = (shape.numerator(), shape.denominator());
    loop {
        let mut number = 1;
        while !coin(success, of, words) {
            number += 1;
        }
        let falls = |l: i64, words: &mut R| coin((l * unit + shape) as u64, ((l + 1) * unit) as u64, words);
        if (1..number).all(|l| falls(l as i64, words)) {
            return number;
        }
    }
}

fn poisson<R: Rng>(mean: Fraction, words: &mut R) -> u64 {
    // m = a/b, m + 1 = (a+b)/b.
    let (a, b) = (mean.numerator() as u64, mean.denominator() as u64);
    let largest = (a + b) / b;
    loop {
        let mut number = 0;
        while coin(a, a + b, words) {
            number += 1;
        }
        let is_taken = (largest + 1..=number).all(|j| coin(a + b, b * j, words))
            && (number + 1..=largest).all(|j| coin(b * j, a + b, words));
        if is_taken {
            return number;
        }
    }
}

/// Returns true with probability `numerator/denominator`, which is at most 1.
fn coin<R: Rng>(numerator: u64, denominator: u64, words: &mut R) -> bool {
    debug_assert!(numerator <= denominator && denominator > 0);
    below(denominator, words) < numerator
}

/// Draws exactly uniformly from `[0, n)`. Redraws the last of the 2⁶⁴ values that do not fill a multiple of `n`.
fn below<R: Rng>(n: u64, words: &mut R) -> u64 {
    let excess = (u64::MAX % n + 1) % n;
    loop {
        let word = words.next_u64();
        if word <= u64::MAX - excess {
            return word % n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::COUNTS;

    /// Computes `P[K = k]` of the distribution by multiplication.
    fn chances(count: CandidateCount) -> Vec<f64> {
        let mut weights = vec![0.0; 2000];
        for k in 0..weights.len() {
            weights[k] = match count {
                CandidateCount::NegativeBinomial { shape, success } => match k {
                    0 => 0.0,
                    1 => 1.0,
                    _ => {
                        let l = (k - 1) as f64;
                        weights[k - 1] * (1.0 - success.as_f64()) * (l + shape.as_f64()) / (l + 1.0)
                    }
                },
                CandidateCount::Poisson { .. } if k == 0 => 1.0,
                CandidateCount::Poisson { mean } => weights[k - 1] * mean.as_f64() / k as f64,
            };
        }
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Pearson's χ² over cells with at least 20 expected draws, in standard deviations above its mean.
    #[test]
    fn numbers_have_the_priced_distribution() {
        const DRAWS: usize = 40_000;
        for text in COUNTS {
            let count: CandidateCount = text.parse().unwrap();
            let chances = chances(count);
            let generator = RunGenerator::simulation(7);
            let mut words = generator.stream(Address { purpose: Purpose::Search, step: 0, chunk: 0 });
            let mut found = vec![0u32; chances.len()];
            for _ in 0..DRAWS {
                found[number(count, &mut words) as usize] += 1;
            }
            let (mut square, mut cells, mut rest) = (0.0, 0.0f64, (0.0, 0.0));
            for (chance, found) in chances.iter().zip(&found) {
                rest = (rest.0 + chance * DRAWS as f64, rest.1 + f64::from(*found));
                if rest.0 >= 20.0 {
                    square += (rest.1 - rest.0) * (rest.1 - rest.0) / rest.0;
                    cells += 1.0;
                    rest = (0.0, 0.0);
                }
            }
            let above = (square - (cells - 1.0)) / (2.0 * (cells - 1.0).max(1.0)).sqrt();
            assert!(cells > 1.0 && above < 4.0, "{text}: {above} over {cells} cells");
        }
    }

    #[test]
    fn settings_are_uniform_and_seeds_differ() {
        let count = "poisson:10000".parse().unwrap();
        let drawn = candidates(count, 3, Some(5)).unwrap();
        assert!(drawn.len() > 9_000 && drawn.len() < 11_000, "{}", drawn.len());
        for settings in 0..3 {
            let share = drawn.iter().filter(|one| one.settings == settings).count() as f64 / drawn.len() as f64;
            assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
        }
        let seeds: std::collections::BTreeSet<_> = drawn.iter().map(|one| one.seed).collect();
        assert_eq!(seeds.len(), drawn.len());
        assert!(drawn == candidates(count, 3, Some(5)).unwrap() && drawn != candidates(count, 3, Some(6)).unwrap());
        assert!(candidates(count, 3, None).unwrap().iter().all(|one| one.seed.is_none()));
        assert!(candidates(count, 3, None).unwrap() != candidates(count, 3, None).unwrap());
    }
}
