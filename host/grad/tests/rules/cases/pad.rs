//! `Pad`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, mode: &str, pads: &[i64], output: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let (x, pads) = (b.activation(&[2, 4, 5]), b.ints(pads));
        let value = b.floats(&[], &[0.5]);
        let inputs = if mode == "constant" { vec![x, pads, value] } else { vec![x, pads] };
        let y = b.node("Pad", &inputs, vec![make_attr_string("mode", mode)], &[&[1], output].concat());
        b.case(name, y)
    };
    let plain = {
        let mut b = GraphBuilder::new(13);
        let (x, pads) = (b.activation(&[2, 3]), b.ints(&[0, 0, 1, 0, 1, 0]));
        let y = b.node("Pad", &[x, pads], vec![], &[1, 3, 4]);
        b.case("zeros, by default", y)
    };
    let parameter = |name, mode: &str| {
        let mut b = GraphBuilder::new(17);
        let (x, w, pads) = (b.input(&[4, 6]), b.param(&[3, 4]), b.ints(&[1, 0, 0, 2]));
        let padded = b.node("Pad", &[w, pads], vec![make_attr_string("mode", mode)], &[4, 6]);
        let y = b.node("Mul", &[x, padded], vec![], &[1, 4, 6]);
        b.case(name, y)
    };
    let before_batch = |name, mode: &str| {
        let mut b = GraphBuilder::new(17);
        let (x, pads) = (b.activation(&[4, 2]), b.ints(&[2, 0, 0, 1, 0, 0]));
        let transposed = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
        let swap = || vec![damper_onnx::make_attr_ints("perm", &[1, 0, 2])];
        let x = b.node_at("Transpose", &[x], swap(), &[4, 1, 2], transposed);
        let y = b.node_at("Pad", &[x, pads], vec![make_attr_string("mode", mode)], &[7, 1, 2], transposed);
        let first = Some(BatchAxis { axis: 0, outer: 1, inner: 1 });
        let y = b.node_at("Transpose", &[y], swap(), &[1, 7, 2], first);
        b.case(name, y)
    };
    vec![
        plain,
        one("a constant", "constant", &[0, 1, 0, 2, 0, 0, 1, 0], &[3, 5, 7]),
        one("a constant, and a crop", "constant", &[0, 0, -1, 2, 0, 0, 1, -2], &[2, 4, 5]),
        one("reflected", "reflect", &[0, 0, 2, 1, 0, 0, 3, 4], &[2, 9, 10]),
        one("the edge", "edge", &[0, 0, 1, 2, 0, 0, 3, 0], &[2, 8, 7]),
        one("the edge, many times", "edge", &[0, 0, 6, 0, 0, 0, 0, 7], &[2, 10, 12]),
        one("wrapped", "wrap", &[0, 1, 2, 0, 0, 0, 1, 5], &[3, 7, 10]),
        one("reflected, and a crop", "reflect", &[0, 0, -1, 2, 0, 0, 1, -2], &[2, 4, 5]),
        parameter("of a parameter", "constant"),
        parameter("of a parameter, reflected", "reflect"),
        before_batch("an axis before the batch", "constant"),
        before_batch("an axis before the batch, the edge", "edge"),
    ]
}
