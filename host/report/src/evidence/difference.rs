//! Differences between two files of a run.

use serde::Serialize;

/// Figures that differ by more than this share differ.
const SAME: f64 = 1e-6;

/// Two files of a run that say different things.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The file that claims it.
    pub file: &'static str,
    /// Name of the figure.
    pub of: &'static str,
    /// The claimed value.
    pub claimed: String,
    /// The value that follows from `events.json`, or from the rest of the claim.
    pub found: String,
}

/// Returns true if two figures are the same but for roundings.
pub(crate) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs())
}
