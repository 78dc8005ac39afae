//! `LpNormalization`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, p, axis, zeros: bool| {
        let mut b = GraphBuilder::new(17);
        let mut x = b.activation(&[2, 3]);
        if zeros {
            let rows = b.floats(&[2, 1], &[0.0, 1.0]);
            x = b.node("Mul", &[x, rows], vec![], &[1, 2, 3]);
        }
        let attributes = vec![make_attr_int("p", p), make_attr_int("axis", axis)];
        let y = b.node("LpNormalization", &[x], attributes, &[1, 2, 3]);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[2, 3]));
    let unit = parameter.node("LpNormalization", &[w], vec![make_attr_int("axis", 0)], &[2, 3]);
    let y = parameter.node("Mul", &[x, unit], vec![], &[1, 2, 3]);
    vec![
        one("p = 2", 2, -1, false),
        one("p = 1, an inner axis", 1, 1, false),
        one("a row of zeros", 2, 2, true),
        parameter.case("of a parameter", y),
    ]
}
