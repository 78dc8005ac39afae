//! `ReduceLogSum`: `Y = ln ΣX` over axes ⇒ `dX = dY / ΣX`.

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceLogSum", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize], keep: bool) -> Var {
    let sum = em.reduce_sum(x, axes, keep);
    em.log(&sum)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let axes = p.reduced_axes()?;
    let sum = p.em.reduce_sum(&x, &axes, true);
    let gx = p.em.div(&gy, &sum);
    p.gx(0, gx);
    Ok(())
}
