//! `Sub`: `Y = A − B` ⇒ `dA = dY`, `dB = −dY`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Sub", pull, cases };

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

fn cases() -> Vec<Case> {
    GraphBuilder::binary_cases("Sub", -1.0, 1.0)
}
