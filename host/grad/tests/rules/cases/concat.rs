//! `Concat`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let mut features = GraphBuilder::new(13);
    let (x, z) = (features.activation(&[2]), features.activation(&[3]));
    let features_y = features.node("Concat", &[x, z, x], axis(1), &[1, 7]);

    let mut token = GraphBuilder::new(17);
    let (x, w) = (token.activation(&[3, 2]), token.param(&[1, 1, 2]));
    let spread = token.node_at("Expand", &[w], vec![], &[1, 1, 2], Some(BATCH_FIRST));
    let token_y = token.node("Concat", &[spread, x], axis(1), &[1, 4, 2]);

    let mut data = GraphBuilder::new(17);
    let (x, z) = (data.input(&[3, 2]), data.activation(&[3, 1]));
    let data_y = data.node("Concat", &[x, z], axis(2), &[1, 3, 3]);

    let mut merged = GraphBuilder::new(17);
    let (x, z) = (merged.activation(&[3, 2]), merged.activation(&[3, 4]));
    let place = Some(BatchAxis { axis: 0, outer: 1, inner: 3 });
    let rows = [(x, 2), (z, 4)].map(|(v, d)| merged.node_at("Reshape", &[v], vec![], &[3, d], place));
    let both = merged.node_at("Concat", &rows, axis(1), &[3, 6], place);
    let merged_y = merged.node("Reshape", &[both], vec![], &[1, 3, 6]);

    let mut parameters = GraphBuilder::new(21);
    let (x, v, w) = (parameters.activation(&[3]), parameters.param(&[3, 2]), parameters.param(&[3, 1]));
    let both = parameters.node("Concat", &[v, w], axis(1), &[3, 3]);
    let parameters_y = parameters.node("MatMul", &[x, both], vec![], &[1, 3]);

    let mut constant = GraphBuilder::new(17);
    let (x, w) = (constant.activation(&[2, 3]), constant.param(&[1, 3]));
    let zeros = constant.floats(&[1, 3], &[0.0; 3]);
    let both = constant.node("Concat", &[w, zeros], axis(0), &[2, 3]);
    let constant_y = constant.node("Add", &[x, both], vec![], &[1, 2, 3]);
    vec![
        features.case("features", features_y),
        token.case("a class token before the others", token_y),
        data.case("data that has no gradient", data_y),
        merged.case("with the batch merged with positions", merged_y),
        parameters.case("of parameters", parameters_y),
        constant.case("of a parameter and a constant", constant_y),
    ]
}
