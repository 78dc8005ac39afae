//! The accountants, and their result.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The accountant, which determines the bound.
///
/// ```
/// use damper_accounting::{Accountant, Event, sampling_rate};
///
/// let run = Event::poisson(sampling_rate(0.01)?, Event::gaussian(1.1)?)?.times(1000);
/// let epsilon = |accountant| run.epsilon(accountant, 1e-5).map(|bound| bound.epsilon);
/// assert!(epsilon(Accountant::Pld)? < epsilon(Accountant::Rdp)?);
/// assert_eq!(Accountant::Pld.to_string(), "pld");
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accountant {
    /// Rényi divergences, the sum that a device's ledger keeps.
    Rdp,
    /// Privacy loss distributions, which are tight, or Rényi divergences if their bound is smaller, as for billions of
    /// steps.
    #[default]
    Pld,
}

impl fmt::Display for Accountant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rdp => "rdp",
            Self::Pld => "pld",
        })
    }
}

/// An ε, rounded up.
///
/// ```
/// use damper_accounting::{Accountant, EpsilonBound, Event};
///
/// let EpsilonBound { epsilon, order, .. } = Event::gaussian(2.0)?.epsilon(Accountant::Rdp, 1e-5)?;
/// assert!(epsilon > 1.0 && order.is_some());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpsilonBound {
    /// ε, at least 0.
    pub epsilon: f64,
    /// The Rényi order that gave ε. None if privacy loss distributions gave it.
    pub order: Option<f64>,
}

/// Formats a number for display: four decimals, never below the number.
///
/// ```
/// use damper_accounting::upward;
///
/// assert_eq!((upward(1.234_51), upward(1.0)), (String::from("1.2346"), String::from("1.0000")));
/// ```
#[must_use]
pub fn upward(x: f64) -> String {
    let nearest = format!("{x:.4}");
    match nearest.parse::<f64>() {
        Ok(shown) if shown < x => format!("{:.4}", shown + 1e-4),
        _ => nearest,
    }
}
