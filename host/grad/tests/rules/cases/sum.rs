//! `Sum`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases("Sum", -1.0, 1.0);
    cases.push(of_three("Sum"));
    cases
}

/// Three inputs that broadcast.
pub fn of_three(op: &str) -> Case {
    let mut b = GraphBuilder::new(13);
    let (x, w, z) = (b.activation(&[2, 1]), b.param(&[3]), b.activation(&[2, 3]));
    let y = b.node(op, &[x, w, z], vec![], &[1, 2, 3]);
    b.case("of three", y)
}
