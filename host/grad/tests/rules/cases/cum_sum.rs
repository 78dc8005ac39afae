//! `CumSum`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, shape: &[usize], axis: i64, exclusive, reverse| {
        let mut b = GraphBuilder::new(14);
        let (x, axis) = (b.activation(shape), b.indices(&[], &[axis]));
        let attributes = vec![make_attr_int("exclusive", exclusive), make_attr_int("reverse", reverse)];
        let y = b.node("CumSum", &[x, axis], attributes, &[&[1], shape].concat());
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w, axis) = (parameter.activation(&[4]), parameter.param(&[4]), parameter.indices(&[], &[0]));
    let sums = parameter.node("CumSum", &[w, axis], vec![], &[4]);
    let y = parameter.node("Mul", &[x, sums], vec![], &[1, 4]);

    let mut second = GraphBuilder::new(17);
    let (x, axis) = (second.activation(&[4, 2]), second.indices(&[], &[0]));
    let (perm, place) = (|| vec![make_attr_ints("perm", &[1, 0, 2])], BatchAxis { axis: 1, ..BATCH_FIRST });
    let transposed = second.node_at("Transpose", &[x], perm(), &[4, 1, 2], Some(place));
    let sums = second.node_at("CumSum", &[transposed, axis], vec![], &[4, 1, 2], Some(place));
    let back = second.node_at("Transpose", &[sums], perm(), &[1, 4, 2], Some(BATCH_FIRST));

    let mut whole = GraphBuilder::new(17);
    let (x, ids, axis) = (whole.activation(&[6]), whole.ids(&[6]), whole.indices(&[], &[1]));
    let mut product = x;
    for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let attributes = vec![make_attr_int("exclusive", exclusive), make_attr_int("reverse", reverse)];
        let sums = whole.node_of(DType::I64, "CumSum", &[ids, axis], attributes, &[1, 6]);
        let to = vec![make_attr_int("to", data_type(DType::F32) as i64)];
        let sums = whole.node("Cast", &[sums], to, &[1, 6]);
        product = whole.node(if reverse == 0 { "Mul" } else { "Add" }, &[product, sums], vec![], &[1, 6]);
    }
    vec![
        whole.case("of integers", product),
        one("along positions", &[5, 2], 1, 0, 0),
        one("without a position itself", &[2, 5], 2, 1, 0),
        one("from the end", &[5, 2], 1, 0, 1),
        one("from the end, without a position itself", &[5], 1, 1, 1),
        parameter.case("of a parameter", y),
        second.case("with the batch on the axis behind", back),
    ]
}
