//! `ReduceL1`: `Y = Σ|X|` over axes ⇒ `dX = dY · sign(X)` (0 at 0, as in PyTorch).

use super::reduce_sum::repeatable;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "ReduceL1", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axes: &[usize], keep: bool) -> Var {
    let magnitude = em.unary("Abs", x);
    em.reduce_sum(&magnitude, axes, keep)
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (gy, _) = repeatable(p)?;
    let x = p.x(0);
    let sign = p.em.sign(&x);
    let gx = p.em.mul(&gy, &sign);
    p.gx(0, gx);
    Ok(())
}
