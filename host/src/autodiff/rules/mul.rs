//! `Mul`: `Y = A · B` ⇒ `dA = dY · B`, `dB = dY · A`; by one number, a factored `dY` stays factored.

use super::Rule;
use crate::autodiff::factor::Grad;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Mul", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    for (i, other) in [(0, 1), (1, 0)] {
        if !p.wants(i) {
            continue;
        }
        let factor = p.x(other);
        if let Grad::Factored(factors) = p.gy_any()
            && factor.len() == 1
            && p.x(i).shape == factors.shape()
        {
            let factors = factors.scale(p.em, &factor);
            p.gx_factored(i, factors);
            continue;
        }
        let gy = p.gy();
        let gx = p.em.mul(&gy, &factor);
        p.gx(i, gx);
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases("Mul", -1.0, 1.0);
    let mut b = GraphBuilder::new(17);
    let (x, w, c) = (b.activation(&[3]), b.param(&[3, 2]), b.floats(&[], &[0.25]));
    let scaled = b.node("Mul", &[w, c], vec![], &[3, 2]);
    let y = b.node("MatMul", &[x, scaled], vec![], &[1, 2]);
    cases.push(b.case("of a weight by a constant, factored", y));
    let mut b = GraphBuilder::new(17);
    let (x, w, c) = (b.activation(&[3]), b.param(&[3, 2]), b.param(&[1]));
    let scaled = b.node("Mul", &[c, w], vec![], &[3, 2]);
    let y = b.node("MatMul", &[x, scaled], vec![], &[1, 2]);
    cases.push(b.case("of a weight by a trained scale", y));
    cases
}
