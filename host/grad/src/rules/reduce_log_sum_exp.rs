//! `ReduceLogSumExp`: `Y = ln Σ exp(X)` over axes ⇒ `dX = dY · exp(X) / Σ exp(X)`.
//!
//! Written with `exp(X − max X)`, which overflows nowhere.

use super::reduce_sum::repeatable;
use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: Rule = Rule { op: "ReduceLogSumExp", backward };

/// `Y`, with extent 1 along the reduced axes.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize]) -> Var {
    let (top, _, sum) = exponentials(em, x, axes);
    let log = em.log(&sum);
    em.add(&top, &log)
}

/// `max X`, `exp(X − max X)`, and the sum of the latter.
fn exponentials(em: &mut Emitter, x: &Var, axes: &[usize]) -> (Var, Var, Var) {
    let top = em.reduce_max(x, axes, true);
    let shifted = em.sub(x, &top);
    let exp = em.unary("Exp", &shifted);
    let sum = em.reduce_sum(&exp, axes, true);
    (top, exp, sum)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let axes = p.reduced_axes().unwrap_or_default();
    let (_, exp, sum) = exponentials(p.em, &x, &axes);
    let share = p.em.div(&exp, &sum);
    let gx = p.em.mul(&gy, &share);
    p.gx(0, gx);
    Ok(())
}
