//! `Reshape`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut flatten = GraphBuilder::new(17);
    let x = flatten.activation(&[2, 3]);
    let y = flatten.node("Reshape", &[x], vec![], &[1, 6]);

    let mut merged = GraphBuilder::new(17);
    let (x, w) = (merged.activation(&[2, 3]), merged.param(&[3, 4]));
    let rows = merged.node_at("Reshape", &[x], vec![], &[2, 3], Some(BatchAxis { axis: 0, outer: 1, inner: 2 }));
    let product = merged.node("MatMul", &[rows, w], vec![], &[2, 4]);
    let split = merged.node("Reshape", &[product], vec![], &[1, 2, 4]);

    let mut weight = GraphBuilder::new(17);
    let (x, w) = (weight.activation(&[6]), weight.param(&[2, 3, 4]));
    let matrix = weight.node("Reshape", &[w], vec![], &[6, 4]);
    let z = weight.node("MatMul", &[x, matrix], vec![], &[1, 4]);
    vec![
        flatten.case("flattens", y),
        merged.case("merges the batch with positions", split),
        weight.case("of a weight, factored", z),
    ]
}
