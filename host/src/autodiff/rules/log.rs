//! `Log`: `Y = ln(X)` ⇒ `dX = dY / X`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Log", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = p.em.div(&gy, &x);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Log", 0.5, 2.0)
}
