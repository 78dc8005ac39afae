//! `PRelu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, derivative: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let (x, s) = (b.activation(&[3, 2, 4]), b.param_in(derivative, 0.0, 0.5));
        let y = b.node("PRelu", &[x, s], vec![], &[1, 3, 2, 4]);
        b.case(name, y)
    };
    let mut merged = GraphBuilder::new(17);
    let (x, s) = (merged.activation(&[2, 3]), merged.param(&[3]));
    let axis = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
    let rows = merged.node_at("Reshape", &[x], vec![], &[2, 3], axis);
    let bent = merged.node_at("PRelu", &[rows, s], vec![], &[2, 3], axis);
    let y = merged.node("Reshape", &[bent], vec![], &[1, 2, 3]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w, s) = (parameter.activation(&[2, 3]), parameter.param(&[2, 3]), parameter.param(&[1]));
    let bent = parameter.node("PRelu", &[w, s], vec![], &[2, 3]);
    let z = parameter.node("Mul", &[x, bent], vec![], &[1, 2, 3]);
    vec![
        one("a slope for all", &[1]),
        one("a slope a channel", &[3, 1, 1]),
        merged.case("with the batch merged with positions", y),
        parameter.case("of a parameter", z),
    ]
}
