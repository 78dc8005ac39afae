//! The accountants, and an ε as they return it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The bound to compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accountant {
    /// Rényi divergences: what a device's ledger adds up.
    Rdp,
    /// Privacy loss distributions, tight; or Rényi divergences where their bound is smaller, as over billions of steps.
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
pub struct EpsilonBound {
    /// ε, at least 0.
    pub epsilon: f64,
    /// The Rényi order that gave it; none where privacy loss distributions did.
    pub order: Option<f64>,
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
