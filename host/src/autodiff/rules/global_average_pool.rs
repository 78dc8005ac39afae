//! `GlobalAveragePool`: `Y: [N, C, 1, …]` = mean of `X: [N, C, *s]` over its `S` positions ⇒ `dX = dY / S` repeated.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "GlobalAveragePool", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let positions: usize = p.x(0).shape[2..].iter().product();
    let gy = p.gy();
    let gx = p.em.scale(&gy, 1.0 / positions as f64);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut plane = GraphBuilder::new(17);
    let x = plane.activation(&[3, 4, 5]);
    let y = plane.node("GlobalAveragePool", &[x], vec![], &[1, 3, 1, 1]);
    let mut line = GraphBuilder::new(17);
    let x = line.activation(&[3, 4]);
    let z = line.node("GlobalAveragePool", &[x], vec![], &[1, 3, 1]);
    vec![plane.case("2-D", y), line.case("1-D", z)]
}
