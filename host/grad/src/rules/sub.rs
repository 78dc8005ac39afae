//! `Sub`: `Y = A − B` ⇒ `dA = dY`, `dB = −dY`.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Sub", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
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
