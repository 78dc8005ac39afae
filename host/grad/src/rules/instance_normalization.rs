//! `InstanceNormalization`: `Y = γ_c · x̂ + β_c`, with `x̂` normalised over the positions of each channel ⇒
//! `dx̂ = γ_c · dY`, `dX` by [`Normalized`], `dγ_c = Σ dY · x̂`, `dβ_c = Σ dY` over the positions.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::Normalized;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "InstanceNormalization", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, gamma, gy) = (p.x_rows(0), p.x(1), p.gy_rows());
    let axes: Vec<usize> = (2..x.rank()).collect();
    if p.wants(2) {
        let gb = p.em.reduce_sum(&gy, &axes, false);
        p.gx(2, gb);
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let normalized = Normalized::new(p.em, &x, axes.clone(), p.float("epsilon", 1e-5), &[]);
    if p.wants(1) {
        let product = p.em.mul(&gy, &normalized.value);
        let gg = p.em.reduce_sum(&product, &axes, false);
        p.gx(1, gg);
    }
    if p.wants(0) {
        let shape = [&[gamma.shape[0]], &vec![1; axes.len()][..]].concat();
        let gamma = p.em.reshape(&gamma, &shape, None);
        let inner = p.em.mul(&gy, &gamma);
        let gx = normalized.backward(p.em, &inner, None);
        p.gx_rows(0, gx);
    }
    Ok(())
}
