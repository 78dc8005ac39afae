//! `GroupNormalization`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, opset, affine: usize| {
        let mut b = GraphBuilder::new(opset);
        let (x, gamma, beta) = (b.activation(&[6, 2, 3]), b.param(&[affine]), b.param(&[affine]));
        let groups = vec![make_attr_int("num_groups", 3)];
        let y = b.node("GroupNormalization", &[x, gamma, beta], groups, &[1, 6, 2, 3]);
        b.case(name, y)
    };
    let frames = |name, opset, affine: usize| {
        let mut b = GraphBuilder::new(opset);
        let (x, gamma, beta) = (b.activation(&[2, 4, 3]), b.param(&[affine]), b.param(&[affine]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 4, 3], merged);
        let groups = vec![make_attr_int("num_groups", 2)];
        let y = b.node_at("GroupNormalization", &[x, gamma, beta], groups, &[2, 4, 3], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 4, 3]);
        b.case(name, y)
    };
    vec![
        frames("of frames merged with the batch, operator set 20", 20, 2),
        frames("of frames merged with the batch, operator set 21", 21, 4),
        one("an entry a group, operator set 18", 18, 3),
        one("an entry a channel, operator set 21", 21, 6),
    ]
}
