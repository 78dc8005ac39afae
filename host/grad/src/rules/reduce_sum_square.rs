//! `ReduceSumSquare`: `Y = ΣX²` over axes ⇒ `dX = dY · 2X`.
//!
//! Numerics: products and the [`Emitter`]'s sums, because the runtimes' own `ReduceSumSquare` is biased low over long
//! axes.

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceSumSquare", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize], keep: bool) -> Var {
    let square = em.mul(x, x);
    em.reduce_sum(&square, axes, keep)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let twice = p.em.scale(&x, 2.0);
    let gx = p.em.mul(&gy, &twice);
    p.gx(0, gx);
    Ok(())
}
