//! `Trilu`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, shape: &[usize], diagonal: Option<i64>, upper| {
        let mut b = GraphBuilder::new(14);
        let x = b.activation(shape);
        let mut inputs = vec![x];
        inputs.extend(diagonal.map(|k| b.indices(&[], &[k])));
        let y = b.node("Trilu", &inputs, vec![make_attr_int("upper", upper)], &[&[1], shape].concat());
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[4]), parameter.param(&[4, 4]));
    let kept = parameter.node("Trilu", &[w], vec![make_attr_int("upper", 0)], &[4, 4]);
    let y = parameter.node("MatMul", &[x, kept], vec![], &[1, 4]);
    vec![
        one("the upper triangle", &[3, 4], None, 1),
        one("above the diagonal, of several matrices", &[2, 3, 3], Some(1), 1),
        one("the lower triangle and one diagonal more", &[4, 3], Some(1), 0),
        parameter.case("of a parameter", y),
    ]
}
