//! `CumSum` along an axis of `T`: `Y = U·X` with `U[t, s]` = 1 if position `s` counts for `t`, else 0 ⇒ `dX = Uᵀ·dY`.
//!
//! Both are products within a sample, with the same order of sums for every sample.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::lookup::along;
use damper_onnx::graph::{Tensor, TensorData};

pub const RULE: GradRule = GradRule { op: "CumSum", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let Some(&[axis]) = p.constant_ints(1).as_deref() else {
        return Err(p.refuse("its axis is not a constant", "use a constant axis"));
    };
    let (gy, exclusive, reverse) = (p.gy(), p.int("exclusive", 0) != 0, p.int("reverse", 0) != 0);
    // The positions that contribute to a gradient are those to which the position contributes.
    let gx = sums(p.em, &gy, axis as usize + p.shift(), exclusive, !reverse);
    p.gx(0, gx);
    Ok(())
}

/// Cumulative sums of floats along `axis`.
pub fn sums(em: &mut Emitter, x: &Var, axis: usize, exclusive: bool, reverse: bool) -> Var {
    let length = x.shape[axis];
    let counts = |to: usize, from: usize| {
        let (early, late) = if reverse { (to, from) } else { (from, to) };
        early < late || (early == late && !exclusive)
    };
    let ones = (0..length * length).map(|at| f64::from(u8::from(counts(at / length, at % length))));
    let ones = em.floats(x.dtype, &[length, length], ones.collect::<Vec<_>>());
    along(em, &ones, x, axis)
}

/// Cumulative sums of integers along `axis`, exact: every position adds the values 1, 2, 4, … positions before it.
/// (tract takes a `CumSum` of integers for a shape, and rejects it.)
pub fn counts(em: &mut Emitter, x: &Var, axis: usize, exclusive: bool, reverse: bool) -> Var {
    let length = x.shape[axis];
    let mut sums = if exclusive { moved(em, x, axis, 1, reverse) } else { x.clone() };
    let mut reach = 1;
    while reach < length {
        let before = moved(em, &sums, axis, reach, reverse);
        sums = em.add(&sums, &before);
        reach *= 2;
    }
    sums
}

/// Shifts integers by `by` positions to later positions along `axis` (earlier with `reverse`), filling with zeros.
fn moved(em: &mut Emitter, x: &Var, axis: usize, by: usize, reverse: bool) -> Var {
    let length = x.shape[axis];
    let from = |to: usize| if reverse { (to + by < length).then_some(to + by) } else { to.checked_sub(by) };
    let indices: Vec<i64> = (0..length).map(|to| from(to).unwrap_or(to) as i64).collect();
    let there = (0..length).map(|to| i64::from(from(to).is_some())).collect();
    let shape = [&[length], &vec![1; x.rank() - 1 - axis][..]].concat();
    let there = em.constant(Tensor { shape, data: TensorData::I64(there) });
    let there = em.cast(&there, x.dtype);
    let taken = em.gather(x, &indices, axis);
    em.mul(&taken, &there)
}
