//! `Add`: `Y = A + B` ⇒ `dA = dY`, `dB = dY`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Add", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    for i in 0..2 {
        if p.wants(i) {
            p.gx(i, gy.clone());
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::binary_cases("Add", -1.0, 1.0)
}
