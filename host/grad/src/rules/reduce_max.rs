//! `ReduceMax`: `Y` = maximum of `X` over axes ⇒ `dX = dY / k` at each of the `k` largest elements, else 0. The `amax`
//! of PyTorch splits the gradient of equal elements in the same way.

use super::reduce_sum::{kept_output, repeatable};
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "ReduceMax", backward };

/// Adds the gradient of the extrema.
pub fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let (x, y) = (p.x(0), kept_output(p)?);
    let axes = p.reduced_axes()?;
    let (zero, one) = (p.em.scalar(x.dtype, 0.0), p.em.scalar(x.dtype, 1.0));
    let is_chosen = p.em.compare("Equal", &x, &y);
    let counted = p.em.choose(&is_chosen, &one, &zero);
    let count = p.em.reduce_sum(&counted, &axes, true);
    let share = p.em.div(&gy, &count);
    let gx = p.em.choose(&is_chosen, &share, &zero);
    p.gx(0, gx);
    Ok(())
}
