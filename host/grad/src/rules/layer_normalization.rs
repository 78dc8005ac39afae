//! `LayerNormalization`: `Y = γ · x̂ + β`, with `x̂` normalised over the axes from `axis` on ⇒ `dx̂ = γ · dY`, `dX` by
//! [`Normalized`], `dγ = dY · x̂`, `dβ = dY`, summed over broadcast axes.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::Normalized;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "LayerNormalization", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gamma, gy) = (p.x(0), p.x(1), p.gy());
    if p.wants(2) {
        p.gx(2, gy.clone());
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let axes = (p.int("axis", -1).rem_euclid(x.rank() as i64) as usize..x.rank()).collect();
    let beta = p.has(2).then(|| p.x(2));
    let affine: Vec<_> = [&gamma].into_iter().chain(&beta).collect();
    let mut normalized = Normalized::new(p.em, &x, axes, p.float("epsilon", 1e-5), &affine);
    if x.batch.is_none() {
        normalized = normalized.behind_samples(p.em);
    }
    if p.wants(1) {
        let gg = p.em.mul(&gy, &normalized.value);
        p.gx(1, gg);
    }
    if p.wants(0) {
        let gx = normalized.backward(p.em, &gy, Some(&gamma));
        p.gx(0, gx);
    }
    Ok(())
}
