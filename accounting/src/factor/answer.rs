//! Result of `damper factorize`: plain data, the fixed JSON keys first.

use super::objective::Objective;
use super::optimize::optimize;
use crate::AccountingError;
use damper_core::noise::Participation;
use serde::Serialize;
use std::fmt;

/// Input of `damper factorize`: a run, and the number of buffers that fit on a device.
///
/// ```
/// use damper_accounting::factor::{FactorizeQuery, Objective};
///
/// // `damper factorize --steps 200 --buffers 2 --separation 20 --participations 10`
/// let query = FactorizeQuery { steps: 200, buffers: 2, pattern: Some((20, 10)), objective: Objective::Max };
/// let found = query.answer()?;
/// assert!(found.root_loss < found.independent_root_loss && found.theta.len() <= 2);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FactorizeQuery {
    /// Steps of the run.
    pub steps: u64,
    /// The largest number of buffers.
    pub buffers: u32,
    /// The smallest distance of two steps of a sample, and the largest number of its steps. None if a sample takes part
    /// once.
    pub pattern: Option<(u64, u64)>,
    /// The error to minimise.
    pub objective: Objective,
}

/// A BLT with its sensitivity and loss.
///
/// ```
/// use damper_accounting::factor::{Factorized, FactorizeQuery, Objective};
///
/// let query = FactorizeQuery { steps: 100, buffers: 1, pattern: None, objective: Objective::Mean };
/// let Factorized { theta, sensitivity, error, root_loss, .. } = query.answer()?;
/// assert!(theta.len() == 1 && (root_loss - sensitivity * error.sqrt()).abs() < 1e-9 * root_loss);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Factorized {
    /// The decays of C, descending.
    pub theta: Vec<f64>,
    /// The scales of C.
    pub omega: Vec<f64>,
    /// The decays of C⁻¹, descending.
    pub theta_hat: Vec<f64>,
    /// The scales of C⁻¹.
    pub omega_hat: Vec<f64>,
    /// The sensitivity S.
    pub sensitivity: f64,
    /// `S·√error`, the standard deviation of the prefix sum's noise for a run of multiplier 1.
    pub root_loss: f64,
    /// Steps of the run.
    pub steps: usize,
    /// The smallest distance of two steps of a sample.
    pub separation: usize,
    /// The largest number of steps of a sample.
    pub participations: usize,
    /// The objective.
    pub objective: Objective,
    /// The error at σ = 1.
    pub error: f64,
    /// The root loss of independent noise at the same ε.
    pub independent_root_loss: f64,
}

impl FactorizeQuery {
    /// Finds the factorisation.
    ///
    /// # Errors
    ///
    /// A setting is out of range.
    pub fn answer(&self) -> Result<Factorized, AccountingError> {
        let Self { steps, buffers, pattern, objective } = *self;
        let participation = participation(steps, pattern)?;
        let blt = optimize(participation, buffers, objective)?;
        let steps = participation.steps() as usize;
        let (sensitivity, error) = (blt.sensitivity(participation), blt.error(steps, objective));
        let n = steps as f64;
        let of_one = match objective {
            Objective::Max => n,
            Objective::Mean => f64::midpoint(n, 1.0),
        };
        Ok(Factorized {
            theta: blt.theta().to_vec(),
            omega: blt.omega(),
            theta_hat: blt.theta_hat().to_vec(),
            omega_hat: blt.omega_hat(),
            sensitivity,
            root_loss: sensitivity * error.sqrt(),
            steps,
            separation: participation.separation() as usize,
            participations: participation.participations() as usize,
            objective,
            error,
            independent_root_loss: (f64::from(participation.participations()) * of_one).sqrt(),
        })
    }
}

/// Converts the query's steps and pattern to a participation.
fn participation(steps: u64, pattern: Option<(u64, u64)>) -> Result<Participation, AccountingError> {
    // Values beyond the last step are equivalent, so saturation is exact.
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let made = match pattern {
        _ if !(1..=Participation::MAX_STEPS).contains(&number(steps)) => {
            return Err(AccountingError::FactorizedSteps(steps));
        }
        None => Participation::single(number(steps)),
        Some((0, _)) => return Err(AccountingError::Separation),
        Some((_, 0)) => return Err(AccountingError::Participations),
        Some((separation, participations)) => {
            Participation::new(number(steps), number(separation), number(participations))
        }
    };
    made.map_err(|_| AccountingError::FactorizedSteps(steps))
}

impl fmt::Display for Factorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.objective {
            Objective::Max => "of the sum over all steps",
            Objective::Mean => "of prefix sums, root mean square",
        };
        writeln!(f, "steps           {}", self.steps)?;
        writeln!(f, "a sample        in at most {}, at least {} apart", self.participations, self.separation)?;
        if self.theta.is_empty() {
            writeln!(f, "buffers         none: independent noise is best")?;
        }
        for ((theta, omega), number) in self.theta.iter().zip(&self.omega).zip(1..) {
            writeln!(f, "buffer {number}        theta {theta}  omega {omega}")?;
        }
        writeln!(f, "sensitivity     {:.8}", self.sensitivity)?;
        writeln!(f, "root loss       {:.8}  (noise {of}, at multiplier 1)", self.root_loss)?;
        let independent = self.independent_root_loss;
        write!(f, "independent     {independent:.8}  ({:.2} times as much)", independent / self.root_loss)
    }
}

#[cfg(test)]
mod tests {
    use super::super::blt::BltMatrix;
    use super::super::toeplitz::{error, sensitivity};
    use super::*;

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let error = |steps, pattern| participation(steps, pattern).unwrap_err();
        let most = u64::from(Participation::MAX_STEPS);
        for steps in [0, most + 1, 1 << 32, u64::MAX] {
            assert_eq!(error(steps, None), AccountingError::FactorizedSteps(steps));
            assert_eq!(error(steps, Some((0, 0))), AccountingError::FactorizedSteps(steps));
        }
        assert_eq!(error(3, Some((0, 1))), AccountingError::Separation);
        assert_eq!(error(3, Some((1, 0))), AccountingError::Participations);
        assert_eq!(participation(10, Some((u64::MAX, 9))), participation(10, None));
        assert_eq!(participation(most, Some((1, u64::MAX))).unwrap().participations(), Participation::MAX_STEPS);
    }

    // The printed numbers give the printed loss, by plain sums.
    #[test]
    fn printed_numbers_give_printed_loss() {
        for (objective, pattern) in [(Objective::Max, None), (Objective::Mean, Some((10, 5)))] {
            let found = FactorizeQuery { steps: 50, buffers: 2, pattern, objective }.answer().unwrap();
            let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
            let numbers = |key: &str| -> Vec<f64> {
                json[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            let (theta, omega) = (numbers("theta"), numbers("omega"));
            let entry = |j: i32| match j {
                0 => 1.0,
                _ => theta.iter().zip(&omega).map(|(theta, omega)| omega * theta.powi(j - 1)).sum(),
            };
            let column: Vec<f64> = (0..50).map(entry).collect();
            let participation = participation(50, pattern).unwrap();
            let loss = sensitivity(&column, participation) * error(&column, 50, objective).sqrt();
            assert!((loss / json["root_loss"].as_f64().unwrap() - 1.0).abs() < 1e-9);
            assert!(found.root_loss < found.independent_root_loss);
            let decays: Vec<f64> = theta.iter().zip(numbers("theta_hat")).flat_map(|(a, b)| [*a, b]).collect();
            assert!(BltMatrix::of_decays(&decays).is_some_and(|blt| blt.omega() == omega));
        }
    }
}
