//! `ReduceMean`: `Y` = mean of `X` over axes, `n` elements each ⇒ `dX = dY / n` repeated along them.

use super::Rule;
use super::reduce_sum::{attribute_form, reduction_cases, repeatable};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::Case;

pub const RULE: Rule = Rule { op: "ReduceMean", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (gy, count) = repeatable(p)?;
    let gx = p.em.scale(&gy, 1.0 / count as f64);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    reduction_cases("ReduceMean", attribute_form)
}
