//! What `damper epsilon` and `damper calibrate` compute and print: plain data, the fixed JSON keys first.

use std::fmt;

use serde::Serialize;

use super::{AccountingError, calibrate, calibrate_on_grid, epsilon, sampling_rate};

/// The name of the accountant in every output.
const RDP: &str = "rdp";

/// What every ε here assumes; it stands beside the figure.
const ASSUMPTIONS: [&str; 5] = [
    "neighbours: one sample replaced by a null sample that contributes nothing; the number of samples is public",
    "sampling: each step an independent Poisson draw at exactly this rate; the released mean divides by a constant",
    "multiplier, rate and steps are fixed before data is read; each step releases one sum of clipped gradients",
    "at fractional orders a discrete Gaussian counts as a continuous one: sigma is at least 1024 grid units",
    "Rényi accountant, every rounding upward; this run alone, other runs on the same data add to it",
];

/// The question of `damper epsilon`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpsilonQuery {
    /// `--noise-multiplier`.
    pub noise_multiplier: f64,
    /// `--sampling-rate`.
    pub sampling_rate: f64,
    /// `--steps`.
    pub steps: u64,
    /// `--delta`.
    pub delta: f64,
}

/// The question of `damper calibrate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrateQuery {
    /// `--epsilon`.
    pub epsilon: f64,
    /// `--delta`.
    pub delta: f64,
    /// `--sampling-rate`.
    pub sampling_rate: f64,
    /// `--steps`.
    pub steps: u64,
    /// `--grid-bits`: calibrate the integer σ that a grid of this many bits runs.
    pub grid_bits: Option<u32>,
}

/// The answer to either: serializes to the fixed keys `epsilon`, `delta`, `noise_multiplier`, `sampling_rate`, `steps`,
/// `accountant`, and more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// ε, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// σ over the clip.
    pub noise_multiplier: f64,
    /// The rate asked about.
    pub sampling_rate: f64,
    /// The number of draws.
    pub steps: u64,
    /// Which accountant.
    pub accountant: &'static str,
    /// The Rényi order that gave ε.
    pub order: f64,
    /// `k` of the rate `k / 2^53` that was priced, the smallest at least `sampling_rate`.
    pub sampling_rate_numerator: u64,
    /// The target of a calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_epsilon: Option<f64>,
    /// σ in grid units, where a grid was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_grid: Option<u64>,
    /// The grid that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid_bits: Option<u32>,
    /// What the figure assumes.
    pub assumptions: &'static [&'static str],
}

impl EpsilonQuery {
    /// Prices the query.
    pub fn answer(&self) -> Result<Answer, AccountingError> {
        let rate = sampling_rate(self.sampling_rate)?;
        let priced = epsilon(self.noise_multiplier, rate, self.steps, self.delta)?;
        Ok(Answer {
            epsilon: priced.epsilon,
            delta: self.delta,
            noise_multiplier: self.noise_multiplier,
            sampling_rate: self.sampling_rate,
            steps: self.steps,
            accountant: RDP,
            order: priced.order,
            sampling_rate_numerator: rate.numerator(),
            target_epsilon: None,
            sigma_grid: None,
            grid_bits: None,
            assumptions: &ASSUMPTIONS,
        })
    }
}

impl CalibrateQuery {
    /// Finds the multiplier.
    pub fn answer(&self) -> Result<Answer, AccountingError> {
        let rate = sampling_rate(self.sampling_rate)?;
        let (found, sigma_grid) = match self.grid_bits {
            None => (calibrate(self.epsilon, self.delta, rate, self.steps)?, None),
            Some(bits) => {
                let grid = calibrate_on_grid(self.epsilon, self.delta, rate, self.steps, bits)?;
                (grid.calibrated, Some(grid.sigma))
            }
        };
        Ok(Answer {
            epsilon: found.epsilon,
            delta: self.delta,
            noise_multiplier: found.multiplier,
            sampling_rate: self.sampling_rate,
            steps: self.steps,
            accountant: RDP,
            order: found.order,
            sampling_rate_numerator: rate.numerator(),
            target_epsilon: Some(self.epsilon),
            sigma_grid,
            grid_bits: self.grid_bits,
            assumptions: &ASSUMPTIONS,
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "epsilon           {}", upward(self.epsilon))?;
        writeln!(f, "delta             {:e}", self.delta)?;
        writeln!(f, "noise multiplier  {}", self.noise_multiplier)?;
        if let (Some(sigma), Some(bits)) = (self.sigma_grid, self.grid_bits) {
            writeln!(f, "                  = {sigma} / 2^{bits}")?;
        }
        writeln!(f, "sampling rate     {}", self.sampling_rate)?;
        writeln!(f, "steps             {}", self.steps)?;
        writeln!(f, "accountant        {} (order {})", self.accountant, self.order)?;
        write!(f, "assumes")?;
        for assumption in self.assumptions {
            write!(f, "\n  - {assumption}")?;
        }
        Ok(())
    }
}

/// A number for people: four decimals, never below the number.
#[must_use]
pub fn upward(x: f64) -> String {
    let nearest = format!("{x:.4}");
    match nearest.parse::<f64>() {
        Ok(shown) if shown < x => format!("{:.4}", shown + 1e-4),
        _ => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: EpsilonQuery = EpsilonQuery { noise_multiplier: 1.1, sampling_rate: 0.004, steps: 1000, delta: 1e-5 };

    #[test]
    fn an_answer_has_the_fixed_keys_and_a_priced_rate_at_least_the_one_asked_about() {
        let answer = QUERY.answer().unwrap();
        let json = serde_json::to_value(&answer).unwrap();
        for key in ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps"] {
            assert!(json[key].is_number(), "{key}");
        }
        assert_eq!(json["accountant"], "rdp");
        assert!(json.get("sigma_grid").is_none());
        let priced = answer.sampling_rate_numerator as f64 / 2f64.powi(53);
        assert!((0.004..0.004 + 2e-16).contains(&priced));
        assert_eq!(answer.sampling_rate, 0.004);

        let query =
            CalibrateQuery { epsilon: 2.0, delta: 1e-5, sampling_rate: 0.004, steps: 1000, grid_bits: Some(12) };
        let answer = query.answer().unwrap();
        assert_eq!(answer.noise_multiplier, answer.sigma_grid.unwrap() as f64 / 4096.0);
        let again = EpsilonQuery { noise_multiplier: answer.noise_multiplier, ..QUERY }.answer().unwrap();
        assert_eq!(again.epsilon, answer.epsilon);
    }

    #[test]
    fn every_bad_flag_is_named_in_one_line() {
        let cases = [
            ("--noise-multiplier", EpsilonQuery { noise_multiplier: 0.0, ..QUERY }),
            ("--noise-multiplier", EpsilonQuery { noise_multiplier: f64::NAN, ..QUERY }),
            ("--noise-multiplier", EpsilonQuery { noise_multiplier: 1e-200, ..QUERY }),
            ("--sampling-rate", EpsilonQuery { sampling_rate: 1.5, ..QUERY }),
            ("--sampling-rate", EpsilonQuery { sampling_rate: 0.0, ..QUERY }),
            ("--sampling-rate", EpsilonQuery { sampling_rate: f64::NAN, ..QUERY }),
            ("--steps", EpsilonQuery { steps: 0, ..QUERY }),
            ("--delta", EpsilonQuery { delta: 1.0, ..QUERY }),
            ("--delta", EpsilonQuery { delta: 0.0, ..QUERY }),
            ("--delta", EpsilonQuery { delta: f64::NAN, ..QUERY }),
        ];
        for (flag, query) in cases {
            let message = query.answer().unwrap_err().to_string();
            assert!(message.starts_with(flag) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_printed_epsilon_is_never_below_the_figure() {
        for x in [0.0, 1.00001, 1.00009, 2.5, 12.345_649_9, 1e-9] {
            let shown: f64 = upward(x).parse().unwrap();
            assert!(shown >= x && shown < x + 1.0001e-4, "{x} {shown}");
        }
    }
}
