//! `InstanceNormalization`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, shape: &[usize], epsilon| {
        let mut b = GraphBuilder::new(17);
        let (x, gamma, beta) = (b.activation(shape), b.param(&shape[..1]), b.param(&shape[..1]));
        let out = [&[1], shape].concat();
        let y = b.node("InstanceNormalization", &[x, gamma, beta], vec![make_attr_float("epsilon", epsilon)], &out);
        b.case(name, y)
    };
    let frames = {
        let mut b = GraphBuilder::new(17);
        let (x, gamma, beta) = (b.activation(&[2, 3, 5]), b.param(&[3]), b.param(&[3]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 3, 5], merged);
        let y = b.node_at("InstanceNormalization", &[x, gamma, beta], vec![], &[2, 3, 5], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 3, 5]);
        b.case("of frames merged with the batch", y)
    };
    // As GroupNorm with one group per row: [N·G, 1, -1].
    let groups = {
        let mut b = GraphBuilder::new(17);
        let (x, scale) = (b.activation(&[6, 2, 2]), b.param(&[6, 1, 1]));
        let (one, zero) = (b.floats(&[1], &[1.0]), b.floats(&[1], &[0.0]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 3 });
        let h = b.node_at("Reshape", &[x], vec![], &[3, 1, 8], merged);
        let h = b.node_at("InstanceNormalization", &[h, one, zero], vec![], &[3, 1, 8], merged);
        let h = b.node("Reshape", &[h], vec![], &[1, 6, 2, 2]);
        let y = b.node("Mul", &[h, scale], vec![], &[1, 6, 2, 2]);
        b.case("of groups merged with the batch", y)
    };
    let parameter = {
        let mut b = GraphBuilder::new(17);
        let (x, w, gamma, beta) = (b.input(&[3, 5]), b.param(&[1, 3, 5]), b.param(&[3]), b.param(&[3]));
        let normal = b.node("InstanceNormalization", &[w, gamma, beta], vec![], &[1, 3, 5]);
        let y = b.node("Mul", &[x, normal], vec![], &[1, 3, 5]);
        b.case("of a parameter", y)
    };
    vec![one("2-D", &[3, 3, 4], 1e-5), one("1-D, a large epsilon", &[2, 6], 0.1), frames, groups, parameter]
}
