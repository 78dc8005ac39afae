//! `MeanVarianceNormalization`: `Y` = `X` normalised to mean 0 and variance 1 over axes ⇒ `dX` by [`Normalized`].
//!
//! The operator adds 1e-9 to the standard deviation. Here the square of 1e-9 is added to the variance instead. The
//! result differs only for deviations of about this size, and the gradient stays finite there.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::Normalized;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "MeanVarianceNormalization", backward };

/// Constant added to the variance.
pub const EPSILON: f64 = 1e-18;

/// Default axes.
pub const AXES: [i64; 3] = [0, 2, 3];

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gy) = (p.x(0), p.gy());
    let listed = p.ints("axes").unwrap_or(AXES.to_vec());
    let axes = listed.iter().map(|a| a.rem_euclid(x.rank() as i64) as usize).collect();
    let mut normalized = Normalized::new(p.em, &x, axes, EPSILON, &[]);
    if x.batch.is_none() {
        normalized = normalized.behind_samples(p.em);
    }
    let gx = normalized.backward(p.em, &gy, None);
    p.gx(0, gx);
    Ok(())
}
