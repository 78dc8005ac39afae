//! `GlobalMaxPool`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut plane = GraphBuilder::new(17);
    let x = plane.activation(&[3, 4, 5]);
    let y = plane.node("GlobalMaxPool", &[x], vec![], &[1, 3, 1, 1]);
    let mut line = GraphBuilder::new(17);
    let x = line.activation(&[3, 4]);
    let z = line.node("GlobalMaxPool", &[x], vec![], &[1, 3, 1]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.input(&[2]), parameter.param(&[1, 2, 3, 3]));
    let pooled = parameter.node("GlobalMaxPool", &[w], vec![], &[1, 2, 1, 1]);
    let pooled = parameter.node("Reshape", &[pooled], vec![], &[1, 2]);
    let u = parameter.node("Mul", &[x, pooled], vec![], &[1, 2]);
    vec![plane.case("2-D", y), line.case("1-D", z), parameter.case("of a parameter", u)]
}
