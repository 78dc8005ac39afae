//! `Identity`: `Y = X` ⇒ `dX = dY`.

use super::Rule;
use crate::autodiff::factor::Grad;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Identity", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    match p.gy_any() {
        Grad::Factored(factors) => p.gx_factored(0, factors),
        Grad::Dense(gy) => p.gx(0, gy),
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Identity", -1.0, 1.0)
}
