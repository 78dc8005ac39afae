//! `AveragePool`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, input: &[usize], output: &[usize], attributes: Vec<_>| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(input);
        let y = b.node("AveragePool", &[x], attributes, &[&[1], output].concat());
        b.case(name, y)
    };
    let kernel = |k: &[i64]| make_attr_ints("kernel_shape", k);
    let before_product = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.activation(&[2, 2]), b.param(&[4, 3]));
        let mut attributes = vec![kernel(&[2]), make_attr_ints("strides", &[2]), make_attr_ints("pads", &[1, 0])];
        attributes.push(make_attr_int("ceil_mode", 1));
        let pooled = b.node("AveragePool", &[x], attributes, &[1, 2, 2]);
        let flat = b.node("Reshape", &[pooled], vec![], &[1, 4]);
        let y = b.node("MatMul", &[flat, w], vec![], &[1, 3]);
        b.case("padded, before a product of all channels", y)
    };
    let dilated = {
        let mut b = GraphBuilder::new(19);
        let x = b.activation(&[2, 5, 6]);
        let attributes =
            vec![kernel(&[2, 2]), make_attr_ints("dilations", &[2, 3]), make_attr_ints("pads", &[1, 0, 0, 1])];
        let y = b.node("AveragePool", &[x], attributes, &[1, 2, 4, 4]);
        b.case("dilations", y)
    };
    let overhang = |counted: i64| {
        vec![
            make_attr_ints("kernel_shape", &[3, 2]),
            make_attr_ints("strides", &[2, 2]),
            make_attr_ints("pads", &[1, 0, 1, 0]),
            make_attr_int("ceil_mode", 1),
            make_attr_int("count_include_pad", counted),
        ]
    };
    let padded = || vec![kernel(&[3, 3]), make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[1, 1, 1, 1])];
    let mut counted = padded();
    counted.push(make_attr_int("count_include_pad", 1));
    vec![
        one("tiles", &[2, 4, 6], &[2, 2, 2], vec![kernel(&[2, 3]), make_attr_ints("strides", &[2, 3])]),
        one("overlapping, stride 1", &[2, 4, 5], &[2, 3, 4], vec![kernel(&[2, 2])]),
        one("padding not counted", &[2, 6, 5], &[2, 3, 3], padded()),
        one("padding counted", &[2, 6, 5], &[2, 3, 3], counted),
        one("a rest", &[2, 5, 5], &[2, 2, 2], vec![kernel(&[2, 2]), make_attr_ints("strides", &[2, 2])]),
        one(
            "ceil mode",
            &[2, 5, 5],
            &[2, 3, 3],
            vec![kernel(&[2, 2]), make_attr_ints("strides", &[2, 2]), make_attr_int("ceil_mode", 1)],
        ),
        one("same upper", &[2, 4, 4], &[2, 4, 4], vec![kernel(&[2, 2]), make_attr_string("auto_pad", "SAME_UPPER")]),
        one("1-D", &[2, 7], &[2, 3], vec![kernel(&[3]), make_attr_ints("strides", &[2])]),
        one("ceil mode with padding not counted", &[2, 6, 6], &[2, 4, 3], overhang(0)),
        one("ceil mode with padding counted, the overhang not", &[2, 6, 6], &[2, 4, 3], overhang(1)),
        one("3-D", &[2, 3, 4, 3], &[2, 2, 2, 2], vec![kernel(&[2, 2, 2]), make_attr_ints("strides", &[1, 2, 1])]),
        before_product,
        dilated,
        GraphBuilder::pool_of_frames("AveragePool"),
        GraphBuilder::pool_over_turned_batch("AveragePool"),
        GraphBuilder::pool_of_parameter("AveragePool"),
    ]
}
