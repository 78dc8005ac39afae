//! `ConvTranspose`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    // The bias has as many channels as `output` before its spatial extents.
    let one = |name, input: &[usize], weight: &[usize], output: &[usize], attributes: Vec<_>| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(input), b.param(weight), b.param(&output[..1]));
        let y = b.node("ConvTranspose", &[x, w, c], attributes, &[&[1], output].concat());
        b.case(name, y)
    };
    let strides = |list: &[i64]| make_attr_ints("strides", list);
    let pads = |list: &[i64]| make_attr_ints("pads", list);
    let rest = |list: &[i64]| make_attr_ints("output_padding", list);
    let first = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.input(&[3, 2, 2]), b.param(&[3, 2, 2, 2]));
        let y = b.node("ConvTranspose", &[x, w], vec![strides(&[2, 2])], &[1, 2, 4, 4]);
        b.case("first layer, no bias", y)
    };
    let before_product = {
        let mut b = GraphBuilder::new(17);
        let (x, w, v) = (b.activation(&[2, 2, 3]), b.param(&[2, 2, 1, 2]), b.param(&[32, 3]));
        let attributes = vec![strides(&[2, 1]), rest(&[1, 0])];
        let y = b.node("ConvTranspose", &[x, w], attributes, &[1, 2, 4, 4]);
        let flat = b.node("Reshape", &[y], vec![], &[1, 32]);
        let y = b.node("MatMul", &[flat, v], vec![], &[1, 3]);
        b.case("strides beyond the kernel, before a product of all channels", y)
    };
    let frames = {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(&[2, 3, 3, 3]), b.param(&[3, 2, 2, 2]), b.param(&[2]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 3, 3, 3], merged);
        let y = b.node_at("ConvTranspose", &[x, w, c], vec![], &[2, 2, 4, 4], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 2, 4, 4]);
        b.case("frames merged with the batch", y)
    };
    let scaled = {
        let mut b = GraphBuilder::new(17);
        let (x, w, scale) = (b.activation(&[2, 3, 3]), b.param(&[2, 3, 2, 2]), b.param(&[1, 3, 1, 1]));
        let kernel = b.node("Mul", &[w, scale], vec![], &[2, 3, 2, 2]);
        let y = b.node("ConvTranspose", &[x, kernel], vec![], &[1, 3, 4, 4]);
        b.case("a scaled weight", y)
    };
    vec![
        one("plain", &[2, 3, 4], &[2, 3, 3, 2], &[3, 5, 5], vec![]),
        first,
        one(
            "strides, uneven pads and output padding",
            &[3, 3, 4],
            &[3, 2, 3, 3],
            &[2, 6, 8],
            vec![strides(&[2, 2]), pads(&[1, 0, 1, 1]), rest(&[1, 0])],
        ),
        one("dilations", &[2, 3, 3], &[2, 2, 2, 3], &[2, 5, 5], vec![make_attr_ints("dilations", &[2, 1])]),
        one("groups", &[4, 3, 3], &[4, 3, 2, 2], &[6, 6, 6], vec![make_attr_int("group", 2), strides(&[2, 2])]),
        one("depthwise", &[3, 3, 3], &[3, 1, 3, 3], &[3, 5, 5], vec![make_attr_int("group", 3)]),
        one("pointwise", &[3, 2, 3], &[3, 2, 1, 1], &[2, 2, 3], vec![]),
        one("many outputs", &[2, 3, 3], &[2, 18, 2, 2], &[18, 4, 4], vec![]),
        one("1-D", &[2, 5], &[2, 3, 4], &[3, 10], vec![strides(&[2]), pads(&[1, 1])]),
        one("3-D", &[2, 2, 2, 3], &[2, 2, 2, 2, 1], &[2, 3, 3, 3], vec![]),
        before_product,
        frames,
        scaled,
    ]
}
