//! `GlobalAveragePool`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut plane = GraphBuilder::new(17);
    let x = plane.activation(&[3, 4, 5]);
    let y = plane.node("GlobalAveragePool", &[x], vec![], &[1, 3, 1, 1]);
    let mut line = GraphBuilder::new(17);
    let x = line.activation(&[3, 4]);
    let z = line.node("GlobalAveragePool", &[x], vec![], &[1, 3, 1]);
    vec![plane.case("2-D", y), line.case("1-D", z)]
}
