//! Differences between two files of a run.

use serde::Serialize;

/// Largest relative difference between equal figures.
const SAME: f64 = 1e-6;

/// A difference between two files of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// File with the claim.
    pub file: &'static str,
    /// Name of the figure.
    pub of: &'static str,
    /// Claimed value.
    pub claimed: String,
    /// Value from `events.json`, or from the rest of the claim.
    pub found: String,
}

/// Returns true if two figures are equal up to rounding.
pub(crate) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs())
}
