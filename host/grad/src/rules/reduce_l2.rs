//! `ReduceL2`: `Y = √ΣX²` over axes ⇒ `dX = dY · X / Y`, and 0 if `Y = 0` (as in PyTorch).
//!
//! Numerics: products and the [`Emitter`]'s sums, because the runtimes' own `ReduceL2` is biased low over long axes.

use super::reduce_sum::{kept_output, repeatable};
use super::reduce_sum_square;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceL2", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize], keep: bool) -> Var {
    let sum = reduce_sum_square::forward(em, x, axes, keep);
    em.unary("Sqrt", &sum)
}

/// `a / norm`, and 0 if the norm is 0.
pub fn over_norm(em: &mut Emitter, a: &Var, norm: &Var) -> Var {
    let zero = em.scalar(norm.dtype, 0.0);
    let is_zero = em.compare("Equal", norm, &zero);
    let ratio = em.div(a, norm);
    em.choose(&is_zero, &zero, &ratio)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let (x, y) = (p.x(0), kept_output(p)?);
    let ratio = over_norm(p.em, &gy, &y);
    let gx = p.em.mul(&x, &ratio);
    p.gx(0, gx);
    Ok(())
}
