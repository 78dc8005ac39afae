//! `Transpose`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut activation = GraphBuilder::new(17);
    let x = activation.activation(&[2, 3, 4]);
    let y = activation.node("Transpose", &[x], vec![make_attr_ints("perm", &[0, 3, 1, 2])], &[1, 4, 2, 3]);

    let mut positions_first = GraphBuilder::new(17);
    let (x, w) = (positions_first.activation(&[3, 4]), positions_first.param(&[4, 2]));
    let transposed = positions_first.node_at(
        "Transpose",
        &[x],
        vec![make_attr_ints("perm", &[1, 0, 2])],
        &[3, 1, 4],
        Some(BatchAxis { axis: 1, outer: 1, inner: 1 }),
    );
    let product = positions_first.node("MatMul", &[transposed, w], vec![], &[3, 1, 2]);
    let bias = positions_first.param(&[2]);
    let sum = positions_first.node("Add", &[product, bias], vec![], &[3, 1, 2]);
    let back = positions_first.node_at(
        "Transpose",
        &[sum],
        vec![make_attr_ints("perm", &[1, 0, 2])],
        &[1, 3, 2],
        Some(BatchAxis { axis: 0, outer: 1, inner: 1 }),
    );

    let mut weight = GraphBuilder::new(17);
    let (x, w) = (weight.activation(&[3]), weight.param(&[2, 3]));
    let transposed = weight.node("Transpose", &[w], vec![], &[3, 2]);
    let z = weight.node("MatMul", &[x, transposed], vec![], &[1, 2]);

    let mut stacked = GraphBuilder::new(17);
    let (x, w) = (stacked.activation(&[6]), stacked.param(&[4, 2, 3]));
    let transposed = stacked.node("Transpose", &[w], vec![make_attr_ints("perm", &[1, 2, 0])], &[2, 3, 4]);
    let matrix = stacked.node("Reshape", &[transposed], vec![], &[6, 4]);
    let u = stacked.node("MatMul", &[x, matrix], vec![], &[1, 4]);

    let mut elementwise = GraphBuilder::new(17);
    let (x, w) = (elementwise.activation(&[3, 2]), elementwise.param(&[2, 3]));
    let transposed = elementwise.node("Transpose", &[w], vec![], &[3, 2]);
    let v = elementwise.node("Mul", &[x, transposed], vec![], &[1, 3, 2]);
    vec![
        activation.case("of an activation", y),
        positions_first.case("puts the batch on axis 1", back),
        weight.case("of a weight, factored", z),
        stacked.case("of a stacked weight, factored through a reshape", u),
        elementwise.case("of a parameter, dense", v),
    ]
}
