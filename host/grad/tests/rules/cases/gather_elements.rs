//! `GatherElements`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let by_data = |name, at: i64, ids: &[usize]| {
        let mut b = GraphBuilder::new(13);
        let (x, ids) = (b.activation(&[4, 4]), b.ids(ids));
        let out = b.shape(ids);
        let y = b.node("GatherElements", &[x, ids], axis(at), &out);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[4, 3]));
    let indices = parameter.indices(&[2, 3], &[3, 0, 1, 3, 2, 1]);
    let picked = parameter.node("GatherElements", &[w, indices], axis(0), &[2, 3]);
    let product = parameter.node("Mul", &[x, picked], vec![], &[1, 2, 3]);

    let mut table = GraphBuilder::new(17);
    let (w, ids) = (table.param(&[4, 3]), table.ids(&[3]));
    let looked_up = table.node_at("GatherElements", &[w, ids], axis(0), &[1, 3], Some(BATCH_FIRST));

    let mut second = GraphBuilder::new(17);
    let (x, ids) = (second.activation(&[4, 2]), second.ids(&[3, 2]));
    let (perm, place) =
        (|| vec![damper_onnx::make_attr_ints("perm", &[1, 0, 2])], BatchAxis { axis: 1, ..BATCH_FIRST });
    let transposed = second.node_at("Transpose", &[x], perm(), &[4, 1, 2], Some(place));
    let ids = second.node_typed("Transpose", &[ids], perm(), damper_onnx::graph::DType::I64, &[3, 1, 2], Some(place));
    let picked = second.node_at("GatherElements", &[transposed, ids], axis(0), &[3, 1, 2], Some(place));
    let second_y = second.node_at("Transpose", &[picked], perm(), &[1, 3, 2], Some(BATCH_FIRST));
    vec![
        by_data("one row for each column", 1, &[1, 4]),
        by_data("along the last axis", 2, &[4, 3]),
        parameter.case("of a parameter, by constants", product),
        table.case("of a parameter, by data", looked_up),
        second.case("with the batch on axis 1", second_y),
    ]
}
