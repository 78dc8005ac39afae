//! `Expand`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut batched = GraphBuilder::new(17);
    let x = batched.activation(&[1, 3]);
    let y = batched.node("Expand", &[x], vec![], &[1, 4, 3]);
    let mut over_samples = GraphBuilder::new(17);
    over_samples.input(&[2]);
    let w = over_samples.param(&[1, 1, 3]);
    let z = over_samples.node_at("Expand", &[w], vec![], &[1, 2, 3], Some(BATCH_FIRST));
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[3]));
    let repeated = parameter.node("Expand", &[w], vec![], &[2, 3]);
    let product = parameter.node("Mul", &[x, repeated], vec![], &[1, 2, 3]);
    let mut summed = GraphBuilder::new(17);
    let (x, w) = (summed.activation(&[2, 1, 3]), summed.param(&[2, 2]));
    let repeated = summed.node("Expand", &[x], vec![], &[1, 2, 2, 3]);
    let mixed = summed.node("MatMul", &[w, repeated], vec![], &[1, 2, 2, 3]);
    let mut stacked = GraphBuilder::new(17);
    let (x, w) = (stacked.activation(&[2, 1, 3]), stacked.param(&[3, 2]));
    let repeated = stacked.node("Expand", &[x], vec![], &[1, 2, 4, 3]);
    let lines = stacked.node("MatMul", &[repeated, w], vec![], &[1, 2, 4, 2]);
    vec![
        summed.case("along the sum of a product", mixed),
        stacked.case("along the rows of a product", lines),
        batched.case("of an activation", y),
        over_samples.case("of a parameter over the samples", z),
        parameter.case("of a parameter", product),
    ]
}
