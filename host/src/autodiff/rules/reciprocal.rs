//! `Reciprocal`: `Y = 1 / X` ⇒ `dX = −dY · Y²`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Reciprocal", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let product = p.em.mul(&gy, &square);
    let gx = p.em.unary("Neg", &product);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Reciprocal", 0.5, 2.0)
}
