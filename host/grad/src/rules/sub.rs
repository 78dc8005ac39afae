//! `Sub`: `Y = A − B` ⇒ `dA = dY`, `dB = −dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: GradRule = GradRule { op: "Sub", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let gy = p.gy();
    if p.wants(0) {
        p.gx(0, gy.clone());
    }
    if p.wants(1) {
        let gx = p.em.unary("Neg", &gy);
        p.gx(1, gx);
    }
    Ok(())
}
