//! `Mul`: `Y = A · B` ⇒ `dA = dY · B`, `dB = dY · A`. If the other operand is a scalar, a factored `dY` stays factored.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::factor::Grad;

pub const RULE: GradRule = GradRule { op: "Mul", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    for (i, other) in [(0, 1), (1, 0)] {
        if !p.wants(i) {
            continue;
        }
        let factor = p.x(other);
        if let Grad::Factored(factors) = p.gy_any()
            && factor.len() == 1
            && p.x(i).shape == factors.shape()
        {
            let factors = factors.scale(p.em, &factor);
            p.gx_factored(i, factors);
            continue;
        }
        let gy = p.gy();
        let gx = p.em.mul(&gy, &factor);
        p.gx(i, gx);
    }
    Ok(())
}
