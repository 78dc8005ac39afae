//! `ReduceMean`: `Y` = mean of `X` over axes, `n` elements each ⇒ `dX = dY / n` repeated along them.

use super::reduce_sum::repeatable;
use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "ReduceMean", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (gy, count) = repeatable(p)?;
    let gx = p.em.scale(&gy, 1.0 / count as f64);
    p.gx(0, gx);
    Ok(())
}
