//! `Abs`: `Y = |X|` ⇒ `dX = dY · sign(X)` (0 at 0, as PyTorch has it).

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Abs", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let sign = p.em.unary("Sign", &x);
    let gx = p.em.mul(&gy, &sign);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Abs", -1.0, 1.0)
}
