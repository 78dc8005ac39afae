//! `LayerNormalization`: `Y = γ · x̂ + β`, `x̂` normalised over the axes from `axis` on ⇒ `dx̂ = γ · dY`, `dX` by `normalize`,
//! `dγ = dY · x̂`, `dβ = dY`, summed over what they were broadcast to.

use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::normalize::Normalized;

pub const RULE: Rule = Rule { op: "LayerNormalization", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gamma, gy) = (p.x(0), p.x(1), p.gy());
    if p.wants(2) {
        p.gx(2, gy.clone());
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let axes = (p.int("axis", -1).rem_euclid(x.rank() as i64) as usize..x.rank()).collect();
    let mut normalized = Normalized::new(p.em, &x, axes, p.float("epsilon", 1e-5));
    if x.batch.is_none() {
        normalized = normalized.behind_samples(p.em);
    }
    if p.wants(1) {
        let gg = p.em.mul(&gy, &normalized.value);
        p.gx(1, gg);
    }
    if p.wants(0) {
        let inner = p.em.mul(&gy, &gamma);
        let gx = normalized.backward(p.em, &inner);
        p.gx(0, gx);
    }
    Ok(())
}
