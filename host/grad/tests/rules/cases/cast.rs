//! `Cast`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let to = |dtype| vec![make_attr_int("to", data_type(dtype) as i64)];
    let mut double = GraphBuilder::new(17);
    let x = double.activation(&[2, 3]);
    let wide = double.node_of(DType::F64, "Cast", &[x], to(DType::F64), &[1, 2, 3]);
    let square = double.node_of(DType::F64, "Mul", &[wide, wide], vec![], &[1, 2, 3]);
    let y = double.node("Cast", &[square], to(DType::F32), &[1, 2, 3]);
    let mut mask = GraphBuilder::new(17);
    let (x, ids) = (mask.activation(&[2, 3]), mask.ids(&[3]));
    let weight = mask.node("Cast", &[ids], to(DType::F32), &[1, 3]);
    let rows = mask.node("Reshape", &[weight], vec![], &[1, 1, 3]);
    let z = mask.node("Mul", &[x, rows], vec![], &[1, 2, 3]);
    let mut whole = GraphBuilder::new(17);
    let x = whole.activation_in(&[4], -3.0, 3.0);
    let steps = whole.node_of(DType::I64, "Cast", &[x], to(DType::I64), &[1, 4]);
    let back = whole.node("Cast", &[steps], to(DType::F32), &[1, 4]);
    let u = whole.node("Mul", &[x, back], vec![], &[1, 4]);
    vec![
        double.case("to float64 and back", y),
        mask.case("of integer data", z),
        whole.case("to integers, which no gradient passes", u),
    ]
}
