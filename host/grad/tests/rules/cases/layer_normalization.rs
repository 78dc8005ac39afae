//! `LayerNormalization`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, axis, affine: &[usize], bias: bool| {
        let mut b = GraphBuilder::new(17);
        let (x, gamma) = (b.activation(&[2, 3, 4]), b.param(affine));
        let mut inputs = vec![x, gamma];
        if bias {
            inputs.push(b.param(affine));
        }
        let y = b.node("LayerNormalization", &inputs, vec![make_attr_int("axis", axis)], &[1, 2, 3, 4]);
        b.case(name, y)
    };
    let mut merged = GraphBuilder::new(17);
    let (x, gamma, beta) = (merged.activation(&[3, 4]), merged.param(&[4]), merged.param(&[4]));
    let axis = BatchAxis { axis: 0, outer: 1, inner: 3 };
    let rows = merged.node_at("Reshape", &[x], vec![], &[3, 4], Some(axis));
    let epsilon = vec![make_attr_float("epsilon", 0.1)];
    let normal = merged.node_at("LayerNormalization", &[rows, gamma, beta], epsilon, &[3, 4], Some(axis));
    let y = merged.node_at("Reshape", &[normal], vec![], &[1, 3, 4], Some(BATCH_FIRST));
    let mut parameter = GraphBuilder::new(17);
    let (x, w, gamma) = (parameter.activation(&[3, 4]), parameter.param(&[3, 4]), parameter.param(&[4]));
    let normal = parameter.node("LayerNormalization", &[w, gamma], vec![], &[3, 4]);
    let z = parameter.node("Mul", &[x, normal], vec![], &[1, 3, 4]);
    vec![
        one("the last axis", -1, &[4], true),
        one("without a bias", -1, &[4], false),
        one("two axes", 2, &[3, 4], true),
        one("two axes, a scale for the last", -2, &[4], true),
        merged.case("with the batch merged with positions, a large epsilon", y),
        parameter.case("of a parameter", z),
    ]
}
