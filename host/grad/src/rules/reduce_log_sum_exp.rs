//! `ReduceLogSumExp`: `Y = ln Σ exp(X)` over axes ⇒ `dX = dY · exp(X) / Σ exp(X)`, by [`Exponentials`].

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::Exponentials;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceLogSumExp", backward };

/// `Y`, with extent 1 along the reduced axes.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize]) -> Var {
    let exponentials = Exponentials::bounded(em, x, axes);
    let log = em.log(&exponentials.sum);
    em.add(&exponentials.top, &log)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let axes = p.reduced_axes()?;
    let exponentials = Exponentials::bounded(p.em, &x, &axes);
    let share = p.em.div(&exponentials.value, &exponentials.sum);
    let gx = p.em.mul(&gy, &share);
    p.gx(0, gx);
    Ok(())
}
