//! The accountants, and their result.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The accountant, which determines the bound.
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
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EpsilonBound {
    /// ε, at least 0.
    pub epsilon: f64,
    /// The Rényi order that gave ε. None if privacy loss distributions gave it.
    pub order: Option<f64>,
}

/// Formats a number for display: four decimals, never below the number.
#[must_use]
pub fn upward(x: f64) -> String {
    let nearest = format!("{x:.4}");
    match nearest.parse::<f64>() {
        Ok(shown) if shown < x => format!("{:.4}", shown + 1e-4),
        _ => nearest,
    }
}
