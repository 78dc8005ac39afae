//! `Cos`: `Y = cos(X)` ⇒ `dX = dY · −sin(X)`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Cos", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let slope = p.em.alone("Sin", &x);
    let slope = p.em.unary("Neg", &slope);
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Cos", -4.0, 4.0)
}
