//! The objective of a factorisation: the largest or the mean error over the steps.

use serde::Serialize;

/// The error that a factorisation minimises, at σ = 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The variance of the sum over all steps, which is the largest.
    #[default]
    Max,
    /// The mean of the variances of all prefix sums.
    Mean,
}
