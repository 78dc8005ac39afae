//! `Gemm`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let flags = |ta, tb| {
        vec![
            make_attr_int("transA", ta),
            make_attr_int("transB", tb),
            make_attr_float("alpha", 0.5),
            make_attr_float("beta", 1.5),
        ]
    };
    let mut plain = GraphBuilder::new(17);
    let (x, w, c) = (plain.activation(&[3]), plain.param(&[3, 4]), plain.param(&[4]));
    let y = plain.node("Gemm", &[x, w, c], vec![], &[1, 4]);

    let mut linear = GraphBuilder::new(17);
    let (x, w, c) = (linear.activation(&[3]), linear.param(&[4, 3]), linear.param(&[1, 4]));
    let z = linear.node("Gemm", &[x, w, c], flags(0, 1), &[1, 4]);

    let columns = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
    let mut left = GraphBuilder::new(17);
    let (x, w, c) = (left.activation(&[3]), left.param(&[3, 4]), left.param(&[4, 1]));
    let transposed = left.node_at("Transpose", &[x], vec![], &[3, 1], columns);
    let u = left.node_at("Gemm", &[w, transposed, c], flags(1, 0), &[4, 1], columns);
    let u = left.node("Transpose", &[u], vec![], &[1, 4]);

    let mut turned_left = GraphBuilder::new(17);
    let (x, w) = (turned_left.activation(&[3]), turned_left.param(&[4, 3]));
    let t = turned_left.node_at("Gemm", &[w, x], flags(0, 1), &[4, 1], columns);
    let t = turned_left.node("Transpose", &[t], vec![], &[1, 4]);

    let mut turned_right = GraphBuilder::new(17);
    let (x, w) = (turned_right.activation(&[3]), turned_right.param(&[3, 4]));
    let s = turned_right.node_at("Transpose", &[x], vec![], &[3, 1], columns);
    let s = turned_right.node_at("Gemm", &[s, w], flags(1, 0), &[1, 4], Some(BATCH_FIRST));

    let mut rows = GraphBuilder::new(17);
    let (x, w, c) = (rows.activation(&[2, 3]), rows.param(&[3, 4]), rows.param(&[4]));
    let merged = rows.node_at("Reshape", &[x], vec![], &[2, 3], Some(BatchAxis { axis: 0, outer: 1, inner: 2 }));
    let v = rows.node("Gemm", &[merged, w, c], vec![], &[2, 4]);

    let mut low_rank = GraphBuilder::new(17);
    let (x, l, r) = (low_rank.activation(&[3]), low_rank.param(&[2, 3]), low_rank.param(&[4, 2]));
    let product = low_rank.node("Gemm", &[l, r], flags(1, 1), &[3, 4]);
    let o = low_rank.node("Gemm", &[x, product], vec![], &[1, 4]);

    let mut tied = GraphBuilder::new(17);
    let (x, w) = (tied.activation(&[3]), tied.param(&[4, 3]));
    let hidden = tied.node("Gemm", &[x, w], vec![make_attr_int("transB", 1)], &[1, 4]);
    let back = tied.node("Gemm", &[hidden, w], vec![], &[1, 3]);

    let mut single = GraphBuilder::new(17);
    let (x, w, c) = (single.activation(&[5]), single.param(&[1, 5]), single.param(&[1]));
    let single_y = single.node("Gemm", &[x, w, c], flags(0, 1), &[1, 1]);

    let mut single_input = GraphBuilder::new(17);
    let (x, w) = (single_input.activation(&[1]), single_input.param(&[1, 5]));
    let single_input_y = single_input.node("Gemm", &[x, w], vec![], &[1, 5]);

    vec![
        plain.case("plain", y),
        linear.case("transposed weight, alpha and beta", z),
        left.case("weight on the left, transposed", u),
        turned_left.case("weight on the left", t),
        turned_right.case("transposed activation", s),
        rows.case("rows merged into the batch", v),
        low_rank.case("product of two parameters", o),
        tied.case("one weight used twice", back),
        single.case("one output", single_y),
        single_input.case("one input", single_input_y),
    ]
}
