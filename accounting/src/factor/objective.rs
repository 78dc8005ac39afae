//! The objective of a factorisation: the largest or the mean error over the steps.

use serde::Serialize;

/// The error that a factorisation minimises, at σ = 1.
///
/// ```
/// use damper_accounting::factor::{Objective, error};
///
/// // Independent noise: the sum over n steps has the variance n.
/// assert_eq!((error(&[1.0], 9, Objective::Max), error(&[1.0], 9, Objective::Mean)), (9.0, 5.0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The variance of the sum over all steps, which is the largest.
    #[default]
    Max,
    /// The mean of the variances of all prefix sums.
    Mean,
}
