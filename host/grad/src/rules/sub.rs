//! `Sub`: `Y = A − B` ⇒ `dA = dY`, `dB = −dY`.

use super::rule::Rule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;

pub const RULE: Rule = Rule { op: "Sub", backward };

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
