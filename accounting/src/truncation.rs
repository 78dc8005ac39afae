//! Truncation of draws that are too large, and its cost in δ.
//!
//! A Poisson draw of N samples is larger than M with the tail probability `τ = P[Bin(N, q) > M]`. The Bernoulli trials
//! do not depend on the data, and N is public. So on neighbouring data sets a run of T draws differs from the run
//! without truncation with probability at most Tτ. The guarantee becomes
//!
//! ```text
//! P'(S) ≤ P(S) + Tτ ≤ e^ε Q(S) + δ + Tτ ≤ e^ε Q'(S) + δ + (1 + e^ε)·Tτ
//! ```
//!
//! (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang, "Scalable DP-SGD: shuffling vs. Poisson subsampling", NeurIPS
//! 2024.) The choice of samples that remain may depend on anything except the data.

use super::{AccountingError, EpsilonBound};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::numerics::up::{add_up, exp_up, mul_up, sub_up};
use libm::{exp, lgamma, log, log1p};
use serde::{Deserialize, Serialize};

/// Draws of more than `most` samples are truncated to `most` samples.
///
/// ```
/// use damper_accounting::{Truncation, sampling_rate};
///
/// // Draws of 600 of 60,000 samples on average, truncated to 800.
/// let truncation = Truncation { samples: 60_000, most: 800 };
/// let tail = truncation.tail(sampling_rate(0.01)?);
/// assert!(tail > 0.0 && tail < 1e-12);
/// assert!(truncation.left(1e-5, 3.0, 1000.0 * tail)? > 0.99e-5);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// N, the public number of samples.
    pub samples: u64,
    /// M, the largest number of samples of a draw.
    pub most: u64,
}

/// An ε at the part of δ that truncation leaves.
///
/// ```
/// use damper_accounting::{Accountant, Plan, Truncation, TruncationBound, sampling_rate};
///
/// let (truncation, plan) = (Truncation { samples: 60_000, most: 800 }, Plan::constant(sampling_rate(0.01)?, 1.1, None, 1000)?);
/// let any = truncation.any(plan.events());
/// let TruncationBound { price, delta } = truncation.price(1e-5, any, |delta| plan.epsilon(Accountant::Pld, delta))?;
/// assert!((1.51..1.53).contains(&price.epsilon) && delta < 1e-5);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TruncationBound {
    /// The privacy cost at `delta`.
    pub price: EpsilonBound,
    /// The remaining δ, which the run without truncation has.
    pub delta: f64,
}

impl Truncation {
    /// The probability that a draw at `rate` is truncated, rounded up.
    ///
    /// Terms of the tail fall at least as fast as a geometric series that starts at the first term. If the tail is
    /// small, the series is within a few per cent of it.
    #[must_use]
    pub fn tail(&self, rate: Rate) -> f64 {
        let (n, k, q) = (self.samples as f64, self.most as f64 + 1.0, rate.as_f64());
        if self.most >= self.samples || rate == Rate::ZERO {
            return 0.0;
        }
        if rate == Rate::ONE {
            return 1.0;
        }
        let gammas = [lgamma(n + 1.0), -lgamma(k + 1.0), -lgamma(n - k + 1.0)];
        let terms = [gammas[0], gammas[1], gammas[2], k * log(q), (n - k) * log1p(-q)];
        let ln_first: f64 = terms.iter().sum();
        let slack = 64.0 * f64::EPSILON * terms.iter().map(|term| term.abs()).sum::<f64>();
        let ratio = (n - k) / (k + 1.0) * (q / rate.complement().as_f64()) * (1.0 + 1e-14);
        if ratio >= 1.0 {
            return 1.0;
        }
        (exp(ln_first + slack) / (1.0 - ratio) * (1.0 + 1e-12)).min(1.0)
    }

    /// An upper bound on the probability that any draw of a run is truncated.
    #[must_use]
    pub fn any(&self, events: &[(SampledGaussian, u64)]) -> f64 {
        events
            .iter()
            .fold(0.0, |sum, (event, times)| add_up(sum, mul_up(*times as f64, self.tail(event.rate()))))
            .min(1.0)
    }

    /// The remaining `delta` next to a guarantee at `epsilon`, rounded down. Fails if nothing remains.
    pub fn left(&self, delta: f64, epsilon: f64, any: f64) -> Result<f64, AccountingError> {
        let taken = mul_up(add_up(1.0, exp_up(epsilon)), any);
        let left = -sub_up(taken, delta);
        if left > 0.0 { Ok(left) } else { Err(AccountingError::Truncation { most: self.most, taken, delta }) }
    }

    /// ε at `delta` of a run in which a draw is truncated with probability `any`. `price` returns ε of the run without
    /// truncation.
    pub fn price(
        &self,
        delta: f64,
        any: f64,
        price: impl Fn(f64) -> Result<EpsilonBound, AccountingError>,
    ) -> Result<TruncationBound, AccountingError> {
        let mut guess = price(delta)?.epsilon;
        for _ in 0..64 {
            let left = self.left(delta, guess, any)?;
            let found = price(left)?;
            if found.epsilon <= guess {
                return Ok(TruncationBound { price: found, delta: left });
            }
            // Slightly above, so that the next ε is below its guess.
            guess = found.epsilon * (1.0 + 1e-6);
        }
        Err(AccountingError::Truncation { most: self.most, taken: delta, delta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accountant, epsilon};

    /// The tail term by term, from the far end.
    fn exact(n: u64, q: f64, most: u64) -> f64 {
        let ln_choose = |k: u64| (1..=k).map(|i| log((n - k + i) as f64 / i as f64)).sum::<f64>();
        (most + 1..=n).rev().map(|k| exp(ln_choose(k) + k as f64 * log(q) + (n - k) as f64 * log1p(-q))).sum()
    }

    // The tail probability is an upper bound, at most 15 % above the exact value.
    #[test]
    fn tail_bound_is_upper_and_tight() {
        for (n, q, most) in [(20, 0.3, 10), (200, 0.1, 50), (300, 0.5, 200), (1437, 0.089, 200), (1437, 0.089, 260)] {
            let rate = Rate::at_least(q).unwrap();
            let (ours, exact) = (Truncation { samples: n, most }.tail(rate), exact(n, rate.as_f64(), most));
            assert!(ours >= exact && ours <= 1.15 * exact, "{n} {q} {most}: {ours:e} {exact:e}");
        }
    }

    // A batch that cannot exceed the limit has tail 0. A batch that mostly exceeds it has tail 1.
    #[test]
    fn tail_is_zero_or_one_at_limits() {
        let half = Rate::of(1, 2).unwrap();
        assert_eq!(Truncation { samples: 100, most: 100 }.tail(Rate::ONE), 0.0);
        assert_eq!(Truncation { samples: 100, most: 99 }.tail(Rate::ONE), 1.0);
        assert_eq!(Truncation { samples: 100, most: 40 }.tail(half), 1.0);
        for (samples, most) in [(u64::MAX, 0), (u64::MAX, u64::MAX - 1), (1, 0), (1 << 40, 1 << 39)] {
            let tail = Truncation { samples, most }.tail(half);
            assert!((0.0..=1.0).contains(&tail), "{samples} {most}: {tail}");
        }
    }

    /// Near the mean, for which the series gives a weak bound.
    #[test]
    fn a_tail_from_the_mean_on_is_bounded() {
        for (n, q, mean) in [(20, 0.3, 6), (200, 0.1, 20), (300, 0.5, 150), (40, 0.9, 36)] {
            for most in mean - 3..mean + 4 {
                let rate = Rate::at_least(q).unwrap();
                let (ours, exact) = (Truncation { samples: n, most }.tail(rate), exact(n, rate.as_f64(), most));
                assert!(ours >= exact && ours <= 1.0, "{n} {q} {most}: {ours:e} {exact:e}");
            }
        }
    }

    /// A single last term, with no other term that could hide its rounding.
    #[test]
    fn the_last_term_is_rounded_up() {
        for (n, q) in [(2, 0.25), (3, 0.125), (40, 0.125f64)] {
            let (ours, exact) =
                (Truncation { samples: n, most: n - 1 }.tail(Rate::at_least(q).unwrap()), q.powi(n as i32));
            assert!(ours > exact * (1.0 + 9e-13) && ours < exact * (1.0 + 1e-11), "{n} {q}: {:e}", ours / exact - 1.0);
        }
    }

    #[test]
    fn draws_of_a_run_add_up() {
        let events = [(0.1, 7), (0.05, 20), (0.2, 0)]
            .map(|(q, times)| (SampledGaussian::new(Rate::at_least(q).unwrap(), 1.0).unwrap(), times));
        let truncation = Truncation { samples: 100, most: 30 };
        let exact = 7.0 * exact(100, 0.1, 30) + 20.0 * exact(100, 0.05, 30);
        let found = truncation.any(&events);
        assert!(found >= exact && found <= 1.1 * exact, "{found:e} {exact:e}");
        assert_eq!(Truncation { samples: 100, most: 10 }.any(&events), 1.0);
        for (delta, epsilon, any) in [(1e-5f64, 1.0f64, 1e-6), (1e-5, 0.0, 4e-6), (1e-3, 3.0, 1e-9)] {
            let (found, exact) = (truncation.left(delta, epsilon, any).unwrap(), delta - (1.0 + epsilon.exp()) * any);
            assert!(found <= exact && found >= exact * (1.0 - 1e-12), "{found:e} {exact:e}");
        }
        let refused = truncation.left(1e-5, 0.0, 5e-6).unwrap_err();
        assert!(matches!(refused, AccountingError::Truncation { most: 30, taken, delta: 1e-5 } if taken >= 1e-5));
    }

    /// Truncation takes no more of δ than it costs at the resulting ε.
    #[test]
    fn little_is_taken_for_a_truncation() {
        let truncation = Truncation { samples: 1000, most: 50 };
        for (any, slope) in [(1e-7, 0.1), (1e-6, 0.3), (3e-7, 0.01)] {
            let price =
                |delta: f64| Ok(EpsilonBound { epsilon: 1.0 - slope * (delta.ln() - 1e-5f64.ln()), order: None });
            let found = truncation.price(1e-5, any, price).unwrap();
            assert_eq!(found.price, price(found.delta).unwrap());
            let taken = (1.0 + found.price.epsilon.exp()) * any;
            let left = 1e-5 - found.delta;
            assert!(left >= taken * (1.0 - 1e-9) && left <= taken * (1.0 + 1e-5), "{left:e} {taken:e}");
        }
    }

    // The run and its truncation share delta.
    #[test]
    fn delta_splits_between_run_and_tail() {
        let rate = Rate::of(128, 1437).unwrap();
        let price = |delta| epsilon(Accountant::Pld, 1.6, rate, 113, delta);
        let events = [(SampledGaussian::new(rate, 1.6).unwrap(), 113)];
        let plain = price(1e-5).unwrap().epsilon;
        for (most, costs) in [(200, 1e-2), (240, 1e-9)] {
            let truncation = Truncation { samples: 1437, most };
            let any = truncation.any(&events);
            let found = truncation.price(1e-5, any, price).unwrap();
            assert!(
                found.price.epsilon >= plain && found.price.epsilon <= plain * (1.0 + 40.0 * costs),
                "{found:?} {plain}"
            );
            assert!(found.delta + (1.0 + found.price.epsilon.exp()) * any <= 1e-5 * (1.0 + 1e-12));
        }
        let least = Truncation { samples: 1437, most: 150 };
        assert!(matches!(least.price(1e-5, least.any(&events), price), Err(AccountingError::Truncation { .. })));
    }
}
