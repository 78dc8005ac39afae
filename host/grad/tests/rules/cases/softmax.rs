//! `Softmax`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    axis_cases("Softmax")
}

/// Axes next to the batch at every position, shared with `LogSoftmax`.
pub fn axis_cases(op: &str) -> Vec<Case> {
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let plain = |name, shape: &[usize], attributes| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(shape);
        let y = b.node(op, &[x], attributes, &[&[1], shape].concat());
        b.case(name, y)
    };
    let transposed = |name, along| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(&[3, 4]);
        let second = Some(BatchAxis { axis: 1, ..BATCH_FIRST });
        let x = b.node_at("Transpose", &[x], vec![make_attr_ints("perm", &[1, 0, 2])], &[3, 1, 4], second);
        let y = b.node_at(op, &[x], axis(along), &[3, 1, 4], second);
        let y = b.node_at("Transpose", &[y], vec![make_attr_ints("perm", &[1, 0, 2])], &[1, 3, 4], Some(BATCH_FIRST));
        b.case(name, y)
    };
    let mut merged = GraphBuilder::new(17);
    let x = merged.activation(&[3, 4]);
    let rows = Some(BatchAxis { axis: 0, outer: 1, inner: 3 });
    let x = merged.node_at("Reshape", &[x], vec![], &[3, 4], rows);
    let y = merged.node_at(op, &[x], axis(1), &[3, 4], rows);
    let y = merged.node("Reshape", &[y], vec![], &[1, 3, 4]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[3, 4]), parameter.param(&[3, 4]));
    let mix = parameter.node(op, &[w], axis(0), &[3, 4]);
    let u = parameter.node("Mul", &[x, mix], vec![], &[1, 3, 4]);
    vec![
        plain("last axis", &[5], vec![]),
        plain("an inner axis", &[3, 4], axis(1)),
        plain("an axis from the back", &[3, 2, 4], axis(-3)),
        transposed("an axis before the batch", 0),
        transposed("an axis behind the batch", 2),
        merged.case("with the batch merged with positions", y),
        parameter.case("of a parameter", u),
    ]
}
