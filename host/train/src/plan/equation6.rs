//! ADP's equation 6: the noise that its theorem requires.
//!
//! ```text
//! σ² = (16·G)²·B_δ/(n²·ε²)·Σ_t 1/α_t²          B_δ = ln(16·T·q/δ)·ln(1.25/δ)
//! ```
//!
//! with `G` the clip and `ε = 16·ε̄`. In units of the clip on the sum of a batch of `m = q·n` that is
//! `z = (q/ε̄)·√(B_δ·Σ 1/α_t²)`.
//!
//! Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially Private Empirical Risk Minimization", theorem C.1.
//!
//! The theorem's conditions do not hold in the paper's own runs. Its neighbours replace a sample, and its sampling is
//! not Poisson sampling. So this code sets the noise as the paper did, and the accountant computes the privacy cost of
//! the actual run.

use crate::TrainError;
use damper_core::accounting::Rate;
use damper_onnx::SettingError;

/// Returns the noise multiplier of the first step for the paper's `ε̄`, with these factors `α_t`. All factors are 1 if
/// none are given.
pub(crate) fn multiplier(
    epsilon: f64,
    rate: Rate,
    steps: u32,
    delta: f64,
    factors: Option<&[f64]>,
) -> Result<f64, TrainError> {
    if !(epsilon.is_finite() && epsilon > 0.0) {
        return Err(SettingError::new("equation_6", epsilon, "must be a finite number above 0").into());
    }
    let steps = f64::from(steps);
    let sum = factors.map_or(steps, |factors| factors.iter().map(|factor| 1.0 / (factor * factor)).sum());
    let logs = (16.0 * steps * rate.as_f64() / delta).ln() * (1.25 / delta).ln();
    let multiplier = rate.as_f64() / epsilon * (logs * sum).sqrt();
    if multiplier.is_finite() && multiplier > 0.0 {
        Ok(multiplier)
    } else {
        let problem = format!("gives no noise at `delta` {delta}; lower `delta`");
        Err(SettingError::new("equation_6", epsilon, problem).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's CIFAR-10 runs have 195 steps per epoch and 60 epochs. Their `B_δ` is 215.7.
    #[test]
    fn gives_the_papers_noise() {
        let rate = Rate::of(256, 50_000).unwrap();
        for (epsilon, expected) in [(0.8, 10.167), (1.6, 5.084), (6.4, 1.271)] {
            let found = multiplier(epsilon, rate, 11_700, 1e-5, None).unwrap();
            assert!((found - expected).abs() < 1e-3, "{found}");
        }
    }

    /// The paper's polynomial schedule, `α_t² = √((20 + t)/20)`: `Σ 1/α_t²` lies between `∫ √(20/(20 + t)) dt` and that
    /// plus 1.
    #[test]
    fn schedules_count_by_their_sum() {
        let rate = Rate::of(256, 50_000).unwrap();
        let factors: Vec<f64> = (0..11_760).map(|t| ((20.0 + f64::from(t)) / 20.0).sqrt().sqrt()).collect();
        let found = multiplier(0.8, rate, 11_760, 1e-5, Some(&factors)).unwrap();
        let equal = multiplier(0.8, rate, 11_760, 1e-5, None).unwrap();
        let integral = 2.0 * 20f64.sqrt() * (11_780f64.sqrt() - 20f64.sqrt());
        let least = equal * (integral / 11_760.0).sqrt();
        assert!(found > least && found < least * 1.001, "{found} {least}");
        assert!((found * factors[11_759] - 14.1).abs() < 0.1);
    }

    #[test]
    fn refuses_what_gives_no_noise() {
        let rate = Rate::of(1, 10).unwrap();
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(multiplier(epsilon, rate, 10, 1e-5, None).is_err());
        }
        assert!(multiplier(1.0, rate, 1, 1.3, None).is_err());
    }
}
