//! `Tanh`: `Y = tanh(X)` ⇒ `dX = dY · (1 − Y²)`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Tanh", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let square = p.em.mul(&y, &y);
    let one = p.em.scalar(y.dtype, 1.0);
    let slope = p.em.sub(&one, &square);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Tanh", -2.0, 2.0)
}
