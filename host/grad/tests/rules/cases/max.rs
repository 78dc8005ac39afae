//! `Max`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    extreme_cases("Max")
}

/// Cases shared with `Min`.
pub fn extreme_cases(op: &str) -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases(op, -1.0, 1.0);
    let mut several = GraphBuilder::new(13);
    let (x, z) = (several.activation(&[2, 3]), several.activation(&[2, 1]));
    let (w, c) = (several.param(&[3]), several.floats(&[], &[0.125]));
    let y = several.node(op, &[x, z, w, c], vec![], &[1, 2, 3]);
    cases.push(several.case("of four", y));
    let mut tied = GraphBuilder::new(17);
    let (x, w) = (tied.activation(&[2, 3]), tied.param(&[3]));
    let same = tied.node(op, &[x, x], vec![], &[1, 2, 3]);
    let twice = tied.node(op, &[w, w, w], vec![], &[3]);
    let u = tied.node("Mul", &[same, twice], vec![], &[1, 2, 3]);
    cases.push(tied.case("of equal inputs", u));
    cases
}
