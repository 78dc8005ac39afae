//! `LpNormalization` along an axis: `Y = X / ‖X‖_p`, and 0 if the norm is 0 ⇒ `dX = (dY − s · Σ dY · Y) / ‖X‖_p` with
//! `s = Y` for `p = 2`, `s = sign(X)` for `p = 1`, and 0 if the norm is 0.

use super::reduce_l2::over_norm;
use super::rule::GradRule;
use super::{reduce_l1, reduce_l2};
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

pub const RULE: GradRule = GradRule { op: "LpNormalization", backward };

/// Emits the output `Y`.
pub fn forward(em: &mut Emitter, x: &Var, axis: usize, p: i64) -> Var {
    let norm = norm(em, x, axis, p);
    over_norm(em, x, &norm)
}

fn norm(em: &mut Emitter, x: &Var, axis: usize, p: i64) -> Var {
    if p == 1 { reduce_l1::forward(em, x, &[axis], true) } else { reduce_l2::forward(em, x, &[axis], true) }
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, y, gy) = (p.x(0), p.y(), p.gy());
    let order = p.int("p", 2);
    let axis = p.int("axis", -1).rem_euclid(x.rank() as i64) as usize;
    let norm = norm(p.em, &x, axis, order);
    let product = p.em.mul(&gy, &y);
    let along = p.em.reduce_sum(&product, &[axis + p.shift()], true);
    let direction = if order == 1 { p.em.sign(&x) } else { y };
    let part = p.em.mul(&direction, &along);
    let rest = p.em.sub(&gy, &part);
    let gx = over_norm(p.em, &rest, &norm);
    p.gx(0, gx);
    Ok(())
}
