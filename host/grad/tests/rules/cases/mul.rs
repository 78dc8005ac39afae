//! `Mul`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
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
