//! `MeanVarianceNormalization`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let axes = |axes: &[i64]| vec![make_attr_ints("axes", axes)];
    let mut planes = GraphBuilder::new(17);
    let x = planes.activation(&[2, 3, 4]);
    let y = planes.node("MeanVarianceNormalization", &[x], axes(&[2, -1]), &[1, 2, 3, 4]);
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[4, 3]), parameter.param(&[4, 3]));
    let normal = parameter.node("MeanVarianceNormalization", &[w], axes(&[0]), &[4, 3]);
    let z = parameter.node("Mul", &[x, normal], vec![], &[1, 4, 3]);
    vec![planes.case("each channel", y), parameter.case("of a parameter", z)]
}
