//! `TopK`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let of = |name, shape: &[usize], count, axis, attributes| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(shape);
        let y = b.top_k(x, count, axis, attributes);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[5, 3]));
    let largest = parameter.top_k(w, 2, 0, vec![]);
    let product = parameter.node("Mul", &[x, largest], vec![], &[1, 2, 3]);
    vec![
        of("the largest of a row", &[5], 3, 1, vec![]),
        of("the smallest along an inner axis", &[5, 2], 2, 1, vec![make_attr_int("largest", 0)]),
        of("all of them", &[2, 4], 4, 2, vec![]),
        parameter.case("of a parameter", product),
    ]
}
