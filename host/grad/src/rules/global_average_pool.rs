//! `GlobalAveragePool`: `Y: [N, C, 1, …]` = mean of `X: [N, C, *s]` over its `S` positions ⇒ `dX = dY / S` repeated.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "GlobalAveragePool", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let positions: usize = p.x(0).shape[2..].iter().product();
    let gy = p.gy();
    let gx = p.em.scale(&gy, 1.0 / positions as f64);
    p.gx(0, gx);
    Ok(())
}
