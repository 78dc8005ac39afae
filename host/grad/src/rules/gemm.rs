//! `Gemm`: `Y = α·A'·B' + β·C` (`A'`, `B'` transposed if their flags are set) ⇒ `dA' = α·dY·B'ᵀ`, `dB' = α·A'ᵀ·dY`,
//! `dC = β·dY`.
//!
//! A weight's gradient is factored, with one position per sample (or one for each row merged into the batch axis).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::{FactorSide, FactoredGrad};

pub const RULE: GradRule = GradRule { op: "Gemm", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (ta, tb) = (p.int("transA", 0) != 0, p.int("transB", 0) != 0);
    let (a, b, gy) = (p.x(0), p.x(1), p.gy());
    if p.wants(2) {
        let gc = p.em.scale(&gy, p.float("beta", 1.0));
        p.gx(2, gc);
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let gy = p.em.scale(&gy, p.float("alpha", 1.0));
    if p.shift() == 1 {
        // [N, m, n] times two matrices.
        if p.wants(0) {
            let b = if tb { b.clone() } else { p.em.transpose_last(&b) };
            let ga = p.em.matmul(&gy, &b);
            let ga = if ta { p.em.transpose_last(&ga) } else { ga };
            p.gx(0, ga);
        }
        if p.wants(1) {
            let a = if ta { a } else { p.em.transpose_last(&a) };
            let gb = p.em.matmul(&a, &gy);
            let gb = if tb { p.em.transpose_last(&gb) } else { gb };
            p.gx(1, gb);
        }
        return Ok(());
    }
    if a.batch.is_some() && b.batch.is_some() {
        return Err(p.refuse("both of its factors depend on the sample", "write it as a batched MatMul"));
    }
    let (m, n) = (p.y().shape[0], p.y().shape[1]);
    let k = a.shape[1 ^ ta as usize];
    if p.wants(0) {
        if a.batch.is_some() {
            let ga = if ta { p.em.gemm(&b, tb, &gy, true) } else { p.em.gemm(&gy, false, &b, !tb) };
            p.gx(0, ga);
        } else {
            // Y = A'·B' with samples among the columns: Σ over a sample's columns of dY[:, t] ⊗ B'[:, t].
            let left = FactorSide::positions_last(p.em.per_sample(&gy, &[m, n]));
            let right = p.em.per_sample(&b, &if tb { [n, k] } else { [k, n] });
            let right = if tb { FactorSide::positions_first(right) } else { FactorSide::positions_last(right) };
            let factors = if ta { FactoredGrad::new(right, left) } else { FactoredGrad::new(left, right) };
            p.gx_factored(0, factors);
        }
    }
    if p.wants(1) {
        if b.batch.is_some() {
            let gb = if tb { p.em.gemm(&gy, true, &a, ta) } else { p.em.gemm(&a, !ta, &gy, false) };
            p.gx(1, gb);
        } else {
            let left = p.em.per_sample(&a, &if ta { [k, m] } else { [m, k] });
            let left = if ta { FactorSide::positions_last(left) } else { FactorSide::positions_first(left) };
            let right = FactorSide::positions_first(p.em.per_sample(&gy, &[m, n]));
            let factors = if tb { FactoredGrad::new(right, left) } else { FactoredGrad::new(left, right) };
            p.gx_factored(1, factors);
        }
    }
    Ok(())
}
