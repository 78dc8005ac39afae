//! `Sqrt`: `Y = √X` ⇒ `dX = dY / 2Y`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Sqrt", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let half = p.em.scale(&gy, 0.5);
    let gx = p.em.div(&half, &y);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    GraphBuilder::unary_cases("Sqrt", 0.5, 2.0)
}
