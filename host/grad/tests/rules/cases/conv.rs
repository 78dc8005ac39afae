//! `Conv`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    struct Shape<'a> {
        input: &'a [usize],
        weight: &'a [usize],
        output: &'a [usize],
    }
    let one = |name, shape: Shape<'_>, attributes: Vec<_>| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(shape.input), b.param(shape.weight), b.param(&shape.weight[..1]));
        let y = b.node("Conv", &[x, w, c], attributes, &[&[1], shape.output].concat());
        b.case(name, y)
    };
    let s = |input, weight, output| Shape { input, weight, output };
    let first = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.input(&[2, 5, 5]), b.param(&[3, 2, 3, 3]));
        let y = b.node("Conv", &[x, w], vec![], &[1, 3, 3, 3]);
        b.case("first layer, no bias", y)
    };
    let frames = |name, width: usize, groups: usize| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(&[2, width, 4, 4]), b.param(&[2, width / groups, 3, 3]), b.param(&[2]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, width, 4, 4], merged);
        let y = b.node_at("Conv", &[x, w, c], vec![make_attr_int("group", groups as i64)], &[2, 2, 2, 2], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 2, 2, 2]);
        b.case(name, y)
    };
    let frames_first = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.activation(&[2, 2, 4, 4]), b.param(&[3, 2, 3, 3]));
        let transposed = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
        let x =
            b.node_at("Transpose", &[x], vec![make_attr_ints("perm", &[1, 0, 2, 3, 4])], &[2, 1, 2, 4, 4], transposed);
        let merged = Some(BatchAxis { axis: 0, outer: 2, inner: 1 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 2, 4, 4], merged);
        let y = b.node_at("Conv", &[x, w], vec![], &[2, 3, 2, 2], merged);
        let y = b.node_at("Reshape", &[y], vec![], &[2, 1, 12], transposed);
        let y = b.node_at("Transpose", &[y], vec![make_attr_ints("perm", &[1, 0, 2])], &[1, 2, 12], Some(BATCH_FIRST));
        b.case("frames before the batch", y)
    };
    let parameters = {
        let mut b = GraphBuilder::new(17);
        let (x, v, w, c) = (b.input(&[3, 3, 3]), b.param(&[1, 2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3]));
        let filtered = b.node("Conv", &[v, w, c], vec![], &[1, 3, 3, 3]);
        let y = b.node("Mul", &[x, filtered], vec![], &[1, 3, 3, 3]);
        b.case("of parameters alone", y)
    };
    // As torch.nn.utils.weight_norm is exported: v · (g / ‖v‖).
    let normalised = {
        let mut b = GraphBuilder::new(17);
        let (x, v, g) = (b.activation(&[2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3, 1, 1, 1]));
        let square = b.node("Mul", &[v, v], vec![], &[3, 2, 2, 2]);
        let axes = b.ints(&[1, 2, 3]);
        let sum = b.node("ReduceSum", &[square, axes], vec![make_attr_int("keepdims", 1)], &[3, 1, 1, 1]);
        let norm = b.node("Sqrt", &[sum], vec![], &[3, 1, 1, 1]);
        let scale = b.node("Div", &[g, norm], vec![], &[3, 1, 1, 1]);
        let w = b.node("Mul", &[v, scale], vec![], &[3, 2, 2, 2]);
        let y = b.node("Conv", &[x, w], vec![], &[1, 3, 3, 3]);
        b.case("a normalised weight", y)
    };
    let shared = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.activation(&[2, 4, 4]), b.param(&[2, 2, 3, 3]));
        let pads = || vec![make_attr_ints("pads", &[1, 1, 1, 1])];
        let once = b.node("Conv", &[x, w], pads(), &[1, 2, 4, 4]);
        let twice = b.node("Conv", &[once, w], pads(), &[1, 2, 4, 4]);
        b.case("one weight used twice", twice)
    };
    let scaled = {
        let mut b = GraphBuilder::new(17);
        let (x, w, scale) = (b.activation(&[2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3, 1, 1, 1]));
        let kernel = b.node("Mul", &[w, scale], vec![], &[3, 2, 2, 2]);
        let y = b.node("Conv", &[x, kernel], vec![], &[1, 3, 3, 3]);
        b.case("a scaled weight", y)
    };
    vec![
        one("plain", s(&[2, 5, 6], &[3, 2, 3, 2], &[3, 3, 5]), vec![]),
        first,
        one(
            "strides that leave a rest, uneven pads",
            s(&[2, 7, 6], &[3, 2, 3, 3], &[3, 4, 3]),
            vec![make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[0, 1, 2, 0])],
        ),
        one(
            "dilations",
            s(&[2, 7, 7], &[3, 2, 3, 2], &[3, 3, 6]),
            vec![make_attr_ints("dilations", &[2, 3]), make_attr_ints("pads", &[0, 1, 0, 1])],
        ),
        one("groups", s(&[4, 4, 4], &[6, 2, 3, 3], &[6, 2, 2]), vec![make_attr_int("group", 2)]),
        one(
            "depthwise",
            s(&[3, 5, 5], &[3, 1, 3, 3], &[3, 3, 3]),
            vec![make_attr_int("group", 3), make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[1, 1, 1, 1])],
        ),
        one("depthwise with a multiplier", s(&[2, 4, 4], &[4, 1, 2, 2], &[4, 3, 3]), vec![make_attr_int("group", 2)]),
        one("many positions", s(&[2, 9, 8], &[2, 2, 3, 3], &[2, 7, 6]), vec![]),
        one("groups, many positions", s(&[4, 8, 8], &[4, 2, 3, 3], &[4, 6, 6]), vec![make_attr_int("group", 2)]),
        one("pointwise", s(&[3, 4, 4], &[2, 3, 1, 1], &[2, 4, 4]), vec![]),
        one(
            "pointwise with strides",
            s(&[3, 4, 5], &[2, 3, 1, 1], &[2, 2, 3]),
            vec![make_attr_ints("strides", &[2, 2])],
        ),
        one("many channels", s(&[18, 4, 4], &[2, 18, 3, 3], &[2, 4, 4]), vec![make_attr_ints("pads", &[1, 1, 1, 1])]),
        one(
            "same upper",
            s(&[2, 5, 6], &[2, 2, 2, 3], &[2, 3, 3]),
            vec![make_attr_string("auto_pad", "SAME_UPPER"), make_attr_ints("strides", &[2, 2])],
        ),
        one(
            "same lower",
            s(&[2, 5, 6], &[2, 2, 2, 3], &[2, 3, 3]),
            vec![make_attr_string("auto_pad", "SAME_LOWER"), make_attr_ints("strides", &[2, 2])],
        ),
        one("valid", s(&[2, 5], &[3, 2, 2], &[3, 4]), vec![make_attr_string("auto_pad", "VALID")]),
        one(
            "1-D",
            s(&[2, 9], &[3, 2, 3], &[3, 4]),
            vec![make_attr_ints("strides", &[2]), make_attr_ints("pads", &[1, 0])],
        ),
        one(
            "3-D",
            s(&[2, 3, 4, 3], &[3, 2, 2, 2, 2], &[3, 2, 2, 3]),
            vec![make_attr_ints("strides", &[1, 2, 1]), make_attr_ints("pads", &[0, 1, 1, 0, 0, 0])],
        ),
        one(
            "1-D depthwise, dilated",
            s(&[3, 9], &[3, 1, 3], &[3, 9]),
            vec![make_attr_int("group", 3), make_attr_ints("dilations", &[2]), make_attr_ints("pads", &[4, 0])],
        ),
        frames("frames merged with the batch", 2, 1),
        frames("frames merged with the batch, groups", 4, 2),
        frames("frames merged with the batch, many channels", 18, 1),
        frames_first,
        parameters,
        normalised,
        shared,
        scaled,
    ]
}
