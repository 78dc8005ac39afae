//! `MaxPool`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, input: &[usize], output: &[usize], attributes: Vec<_>| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(input);
        let y = b.node("MaxPool", &[x], attributes, &[&[1], output].concat());
        b.case(name, y)
    };
    let kernel = |k: &[i64]| make_attr_ints("kernel_shape", k);
    let rectified = {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(&[2, 4, 4]);
        let x = b.node("Relu", &[x], vec![], &[1, 2, 4, 4]);
        let attributes =
            vec![kernel(&[3, 3]), make_attr_ints("pads", &[1, 1, 1, 1]), make_attr_ints("strides", &[2, 2])];
        let y = b.node("MaxPool", &[x], attributes, &[1, 2, 2, 2]);
        b.case("padding beside zeros of a Relu", y)
    };
    vec![
        one("tiles", &[2, 4, 6], &[2, 2, 3], vec![kernel(&[2, 2]), make_attr_ints("strides", &[2, 2])]),
        one("tiles of other sides", &[2, 6, 6], &[2, 2, 3], vec![kernel(&[3, 2]), make_attr_ints("strides", &[3, 2])]),
        one("overlapping, stride 1", &[2, 4, 5], &[2, 3, 4], vec![kernel(&[2, 2])]),
        one(
            "overlapping, stride 2, padded",
            &[2, 6, 5],
            &[2, 3, 3],
            vec![kernel(&[3, 3]), make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[1, 1, 1, 1])],
        ),
        one("a rest", &[2, 5, 5], &[2, 2, 2], vec![kernel(&[2, 2]), make_attr_ints("strides", &[2, 2])]),
        one(
            "ceil mode",
            &[2, 5, 5],
            &[2, 3, 3],
            vec![kernel(&[2, 2]), make_attr_ints("strides", &[2, 2]), make_attr_int("ceil_mode", 1)],
        ),
        one("dilations", &[2, 5, 6], &[2, 3, 4], vec![kernel(&[2, 2]), make_attr_ints("dilations", &[2, 2])]),
        one("same upper", &[2, 4, 4], &[2, 4, 4], vec![kernel(&[2, 2]), make_attr_string("auto_pad", "SAME_UPPER")]),
        one("1-D", &[2, 7], &[2, 3], vec![kernel(&[3]), make_attr_ints("strides", &[2])]),
        one(
            "ceil mode with padding and dilations",
            &[2, 7, 6],
            &[2, 4, 3],
            vec![
                kernel(&[2, 3]),
                make_attr_ints("strides", &[2, 2]),
                make_attr_ints("dilations", &[2, 1]),
                make_attr_ints("pads", &[1, 0, 1, 1]),
                make_attr_int("ceil_mode", 1),
            ],
        ),
        one("3-D", &[2, 3, 4, 3], &[2, 2, 2, 2], vec![kernel(&[2, 2, 2]), make_attr_ints("strides", &[1, 2, 1])]),
        rectified,
        GraphBuilder::pool_of_frames("MaxPool"),
        GraphBuilder::pool_over_turned_batch("MaxPool"),
        GraphBuilder::pool_of_parameter("MaxPool"),
    ]
}
