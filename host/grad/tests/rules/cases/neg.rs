//! `Neg`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::unary_cases("Neg", -1.0, 1.0);
    let mut b = GraphBuilder::new(17);
    let (x, w) = (b.activation(&[3]), b.param(&[3, 2]));
    let minus = b.node("Neg", &[w], vec![], &[3, 2]);
    let y = b.node("MatMul", &[x, minus], vec![], &[1, 2]);
    cases.push(b.case("of a weight, factored", y));
    cases
}
