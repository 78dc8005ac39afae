//! `Neg`: `Y = −X` ⇒ `dX = −dY`, factored where `dY` is.

use super::Rule;
use crate::autodiff::factor::Grad;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Neg", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    match p.gy_any() {
        Grad::Factored(factors) => {
            let minus_one = p.em.scalar(p.x(0).dtype, -1.0);
            let factors = factors.scale(p.em, &minus_one);
            p.gx_factored(0, factors);
        }
        Grad::Dense(gy) => {
            let gx = p.em.unary("Neg", &gy);
            p.gx(0, gx);
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Neg", -1.0, 1.0);
    let mut b = GraphBuilder::new(17);
    let (x, w) = (b.activation(&[3]), b.param(&[3, 2]));
    let minus = b.node("Neg", &[w], vec![], &[3, 2]);
    let y = b.node("MatMul", &[x, minus], vec![], &[1, 2]);
    cases.push(b.case("of a weight, factored", y));
    cases
}
