//! `GatherElements`: `Y[i] = X[i with its position along an axis replaced by index[i]]` ⇒ `dX[j]` = the sum of `dY[i]`
//! over the `i` that differ from `j` only along the axis and read `j`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::Var;
use crate::lookup::{checked, numbers, split_at_axis};

pub const RULE: GradRule = GradRule { op: "GatherElements", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (index, axis) = (p.x(1), p.int("axis", 0) as usize);
    backward_at(p, &index, axis);
    Ok(())
}

/// Adds the gradient of input 0, which was read at `index` along `axis`.
pub fn backward_at(p: &mut BackwardContext<'_>, index: &Var, axis: usize) {
    let (x, gy) = (p.x(0), p.gy());
    let ([before, extent, after], [_, count, _]) = (split_at_axis(&x.shape, axis), split_at_axis(&index.shape, axis));
    // Both as [N, before, 1, count, after], or without N.
    let rows = [before, 1, count, after];
    let grad = p.em.per_sample(&gy, &rows);
    let index = match index.batch {
        Some(_) => p.em.per_sample(index, &rows),
        None => p.em.reshape(index, &rows, None),
    };
    let index = checked(p.em, &index, extent).index;
    let numbers = numbers(p.em, &[extent, 1, 1]);
    let hits = p.em.compare("Equal", &index, &numbers);
    let zero = p.em.scalar(grad.dtype, 0.0);
    let spread = p.em.choose(&hits, &grad, &zero);
    let sums = p.em.reduce_sum(&spread, &[3], false);
    let (shape, batch) = p.layout(0);
    let gx = p.em.as_batched(&sums, &shape, batch);
    p.gx(0, gx);
}
