//! ε if the Bernoulli trials of the draws are public: the bound for very little noise.
//!
//! Publish the trials of a draw. If the sample is drawn, the draw is the plain Gaussian mechanism. Otherwise it costs
//! nothing. Publishing less is post-processing. So for k of T draws that contain the sample, with k binomial,
//! ```text
//! δ(ε)  ≤  Σ_k P[Bin(T, q) = k]·H(√k/σ, ε)  ≤  P[Bin(T, q) > K] + Σ_{1≤k≤K} P[Bin(T, q) = k]·Φ(√k/2σ − εσ/√k),
//! ```
//!
//! H is the hockey-stick divergence of a Gaussian shifted by √k/σ, which is less than its first term. If σ is small,
//! the release reveals the trials anyway. Each draw that contains the sample costs `1/2σ²`, and the bound exceeds it by
//! about `ln 1/q` only. A privacy loss distribution would need too many grid points in this range. Rényi divergences of
//! orders above 1 assume that almost every draw contains the sample.

use super::Truncation;
use damper_core::accounting::event::{Rate, SampledGaussian};
use libm::{erfc, exp, lgamma, log, log1p, sqrt};

/// Multipliers below this bound are accounted here too. Privacy loss distributions end at 1/64.
const BELOW: f64 = 1.0 / 32.0;
/// Largest number of terms that are summed exactly. Above it, the largest likely number of draws bounds all of them.
const TERMS: u64 = 1 << 14;
/// Rounding error of one term.
const SLACK: f64 = 1e-10;

/// Returns ε at `delta` of `events`, each with its number of times, rounded up. Infinite if no bound is found, or if
/// the noise is outside the range of this bound.
pub(super) fn epsilon(events: &[(SampledGaussian, u64)], delta: f64) -> f64 {
    let drawn = events.iter().filter(|(_, times)| *times > 0);
    let Some(least) = drawn.clone().map(|(event, _)| event.multiplier()).reduce(f64::min) else { return 0.0 };
    let Some(rate) = drawn.clone().map(|(event, _)| event.rate()).max() else { return 0.0 };
    let steps = drawn.fold(0u64, |sum, (_, times)| sum.saturating_add(*times));
    if least >= BELOW || rate == Rate::ZERO || steps == u64::MAX {
        return if rate == Rate::ZERO { 0.0 } else { f64::INFINITY };
    }
    let beyond = |most: u64| Truncation { samples: steps, most }.tail(rate);
    // The smallest number that is exceeded with a small part of δ only.
    let (mut low, mut high) = (0u64, steps);
    while low < high {
        let middle = low + (high - low) / 2;
        if beyond(middle) <= delta / 256.0 { high = middle } else { low = middle + 1 }
    }
    let most = high;
    let left = delta - beyond(most) * (1.0 + SLACK);
    let weights: Vec<(f64, f64)> = if most <= TERMS && rate != Rate::ONE {
        (1..=most).map(|k| (sqrt(k as f64), chance(rate, steps, k))).filter(|(_, weight)| *weight > 0.0).collect()
    } else {
        vec![(sqrt(most as f64), 1.0)]
    };
    let holds = |epsilon: f64| {
        let term = |(root, weight): &(f64, f64)| {
            let distance = epsilon * least / root - root / (2.0 * least);
            weight * 0.5 * erfc(distance / sqrt(2.0) * (1.0 - SLACK * distance.signum())) * (1.0 + SLACK)
        };
        weights.iter().map(term).sum::<f64>() * (1.0 + SLACK) <= left
    };
    if holds(0.0) {
        return 0.0;
    }
    // Φ(−40) is below every δ that is a normal number.
    let (mut low, mut high) = (0.0, (most as f64 / (2.0 * least) / least + 45.0 * sqrt(most as f64) / least) * 1.01);
    if !(high.is_finite() && holds(high)) {
        return f64::INFINITY;
    }
    while high - low > 1e-9 * high {
        let middle = low + (high - low) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    high * (1.0 + SLACK)
}

/// `P[Bin(steps, rate) = k]`, rounded up, for 1 ≤ k ≤ steps and a rate below 1.
fn chance(rate: Rate, steps: u64, k: u64) -> f64 {
    let (n, k, q) = (steps as f64, k as f64, rate.as_f64());
    let terms = [lgamma(n + 1.0), -lgamma(k + 1.0), -lgamma(n - k + 1.0), k * log(q), (n - k) * log1p(-q)];
    let slack = 64.0 * f64::EPSILON * terms.iter().map(|term| term.abs()).sum::<f64>();
    exp((terms.iter().sum::<f64>() + slack).min(0.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::{self, Neighbours};

    #[test]
    fn close_above_the_tight_bound() {
        for (q, multiplier, steps, delta) in
            [(1.0, 0.02, 30, 1e-5), (0.1, 0.02, 50, 1e-6), (0.01, 0.018, 1000, 1e-5), (0.004, 0.025, 300, 1e-3)]
        {
            let events = [(SampledGaussian::new(Rate::at_least(q).unwrap(), multiplier).unwrap(), steps)];
            let ours = epsilon(&events, delta);
            let below = pld::epsilon_lower_bound(&events, Neighbours::AddOrRemove, delta).unwrap();
            let tight = pld::epsilon(&events, Neighbours::AddOrRemove, delta).unwrap();
            println!("{q} {multiplier} {steps}: {below} {tight} {ours}");
            assert!(ours >= below && ours <= 1.02 * tight, "{q} {multiplier} {steps}: {below} {tight} {ours}");
        }
    }

    /// `P[Bin(n, q) = k]` for all k, each by multiplication.
    fn binomial(n: u64, q: f64) -> Vec<f64> {
        let one = |k: u64| {
            let choose = (1..=k).map(|i| (n - k + i) as f64 / i as f64).product::<f64>();
            choose * q.powi(k as i32) * (1.0 - q).powi((n - k) as i32)
        };
        (0..=n).map(one).collect()
    }

    /// The ε at which the probabilities, each times `Φ(√k/2σ - εσ/√k)`, sum to δ.
    fn direct(chances: &[(u64, f64)], sigma: f64, delta: f64) -> f64 {
        let at = |epsilon: f64| -> f64 {
            let term = |(k, chance): &(u64, f64)| {
                let root = sqrt(*k as f64);
                chance * 0.5 * erfc((epsilon * sigma / root - root / sigma / 2.0) / sqrt(2.0))
            };
            chances.iter().map(term).sum()
        };
        let (mut low, mut high) = (0.0, 1e12);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if at(middle) > delta { low = middle } else { high = middle }
        }
        high
    }

    #[test]
    fn chances_are_those_of_coins() {
        for (n, q) in [(1, 0.3), (20, 0.3), (40, 0.9), (200, 0.01)] {
            let rate = Rate::at_least(q).unwrap();
            for (k, exact) in
                binomial(n, rate.as_f64()).into_iter().enumerate().skip(1).filter(|(_, exact)| *exact > 1e-150)
            {
                let found = chance(rate, n, k as u64);
                assert!(
                    found >= exact * (1.0 - 1e-13) && found <= exact * (1.0 + 1e-9),
                    "{n} {q} {k}: {found:e} {exact:e}"
                );
            }
        }
    }

    #[test]
    fn epsilon_is_that_of_the_sum() {
        for (q, sigma, steps, delta) in [
            (0.3, 0.02, 20, 1e-5),
            (0.05, 0.01, 40, 1e-3),
            (0.5, 0.03, 12, 1e-2),
            (1e-3, 0.031, 90, 1e-4),
            (0.9, 1e-3, 30, 0.1),
        ] {
            let rate = Rate::at_least(q).unwrap();
            let chances: Vec<_> = (0..).zip(binomial(steps, rate.as_f64())).skip(1).collect();
            let (found, exact) = (
                epsilon(&[(SampledGaussian::new(rate, sigma).unwrap(), steps)], delta),
                direct(&chances, sigma, delta),
            );
            assert!(found >= exact && found <= exact * 1.001, "{q} {sigma}: {found} {exact}");
            // The least noise and the largest rate bound all parts.
            let parts =
                [(rate, 1.01 * sigma, 3), (Rate::at_least(0.9 * q).unwrap(), sigma, steps - 3), (Rate::ONE, 1e-9, 0)];
            let parts = parts.map(|(rate, sigma, times)| (SampledGaussian::new(rate, sigma).unwrap(), times));
            assert_eq!(epsilon(&parts, delta), found);
        }
        // Too many terms for a sum: use the number that is exceeded with probability δ/256.
        let (steps, half) = (60_000u64, Rate::of(1, 2).unwrap());
        let found = epsilon(&[(SampledGaussian::new(half, 0.01).unwrap(), steps)], 1e-5);
        let (_, z) =
            (0..).map(|k| (k, f64::from(k) / 1000.0)).find(|(_, z)| 0.5 * erfc(z / sqrt(2.0)) <= 1e-5 / 256.0).unwrap();
        let exact = direct(&[((30_000.0 + z * sqrt(15_000.0)) as u64, 1.0)], 0.01, 1e-5 * 255.0 / 256.0);
        assert!((found / exact - 1.0).abs() < 1e-3, "{found} {exact}");
    }

    #[test]
    fn only_little_noise_is_asked_about() {
        let epsilon = |rate: Rate, sigma, times| epsilon(&[(SampledGaussian::new(rate, sigma).unwrap(), times)], 1e-5);
        assert_eq!(epsilon(Rate::ONE, 1.0 / 32.0, 1), f64::INFINITY);
        assert!(epsilon(Rate::ONE, 1.0 / 32.1, 1).is_finite());
        assert_eq!(epsilon(Rate::ONE, 0.01, u64::MAX), f64::INFINITY);
        assert_eq!(
            (epsilon(Rate::ONE, 0.01, 0), epsilon(Rate::ZERO, 0.01, 5), super::epsilon(&[], 0.1)),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn counts_draws_with_the_sample() {
        // A sample whose probability of ever being drawn is below δ costs nothing.
        let rare = [(SampledGaussian::new(Rate::at_least(1e-9).unwrap(), 1e-3).unwrap(), 100)];
        assert_eq!(epsilon(&rare, 1e-5), 0.0);
        let once = [(SampledGaussian::new(Rate::at_least(1e-4).unwrap(), 1e-3).unwrap(), 10)];
        let found = epsilon(&once, 1e-5);
        assert!(found > 5e5 && found < 5.1e5, "{found}");
        let plain = [(SampledGaussian::new(Rate::ONE, 1e-3).unwrap(), 4)];
        let found = epsilon(&plain, 1e-5);
        // μ = 2,000: ε is μ²/2 plus a multiple of μ.
        assert!(found > 2e6 && found < 2.02e6, "{found}");
        assert_eq!(epsilon(&[(SampledGaussian::new(Rate::ONE, 1.0).unwrap(), 1)], 1e-5), f64::INFINITY);
    }
}
