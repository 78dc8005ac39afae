//! `GroupNormalization`: `Y = γ · x̂ + β`, with `x̂` normalised over the channels and positions of each group ⇒
//! `dx̂ = γ · dY`, `dX` by [`Normalized`], `dγ = Σ dY · x̂`, `dβ = Σ dY`.
//!
//! `γ` and `β` have one entry per group before opset 21, and one per channel from then on.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::Normalized;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "GroupNormalization", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gamma, gy) = (p.x_rows(0), p.x(1), p.gy_rows());
    let groups = p.int("num_groups", 1) as usize;
    let channels = x.shape[1];
    // [N, g, C/g, S]
    let grouped = [x.shape[0], groups, channels / groups, x.shape[2..].iter().product()];
    let affine = if p.em.opset >= 21 { [groups, channels / groups, 1] } else { [groups, 1, 1] };
    let gy = p.em.reshape(&gy, &grouped, x.batch);
    if p.wants(2) {
        let gb = p.em.reduce_sum(&gy, if p.em.opset >= 21 { &[3] } else { &[2, 3] }, false);
        let gb = p.em.reshape(&gb, &[x.shape[0], gamma.len()], x.batch);
        p.gx(2, gb);
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let xg = p.em.reshape(&x, &grouped, x.batch);
    let normalized = Normalized::new(p.em, &xg, vec![2, 3], p.float("epsilon", 1e-5), &[]);
    if p.wants(1) {
        let product = p.em.mul(&gy, &normalized.value);
        let gg = p.em.reduce_sum(&product, if p.em.opset >= 21 { &[3] } else { &[2, 3] }, false);
        let gg = p.em.reshape(&gg, &[x.shape[0], gamma.len()], x.batch);
        p.gx(1, gg);
    }
    if p.wants(0) {
        let gamma = p.em.reshape(&gamma, &affine, None);
        let inner = p.em.mul(&gy, &gamma);
        let gx = normalized.backward(p.em, &inner, None);
        let gx = p.em.reshape(&gx, &x.shape, x.batch);
        p.gx_rows(0, gx);
    }
    Ok(())
}
