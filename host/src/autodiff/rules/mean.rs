//! `Mean` of `n` inputs: `dX_i = dY / n`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Mean", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    let share = p.em.scale(&gy, 1.0 / p.arity() as f64);
    for i in 0..p.arity() {
        if p.wants(i) {
            p.gx(i, share.clone());
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases("Mean", -1.0, 1.0);
    cases.push(super::sum::of_three("Mean"));
    cases
}
