//! `Gemm`: `Y = α·A'·B' + β·C` (`A'`, `B'` transposed where the flags say) ⇒ `dA' = α·dY·B'ᵀ`, `dB' = α·A'ᵀ·dY`,
//! `dC = β·dY`.
//!
//! A weight's gradient is factored: one position a sample (or one for each row merged into the batch axis).

use super::Rule;
use crate::autodiff::factor::{Factors, Side};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::graph::BatchAxis;
use crate::onnx::{make_attr_float, make_attr_int};

pub const RULE: Rule = Rule { op: "Gemm", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (ta, tb) = (p.int("transA", 0) != 0, p.int("transB", 0) != 0);
    let (a, b, gy) = (p.x(0), p.x(1), p.gy());
    if p.wants(2) {
        let gc = p.em.scale(&gy, p.float("beta", 1.0));
        p.gx(2, gc);
    }
    if !p.wants(0) && !p.wants(1) {
        return Ok(());
    }
    let gy = p.em.scale(&gy, p.float("alpha", 1.0));
    if p.shift() == 1 {
        // [N, m, n] against two matrices.
        if p.wants(0) {
            let b = if tb { b.clone() } else { p.em.transpose_last(&b) };
            let ga = p.em.matmul(&gy, &b);
            let ga = if ta { p.em.transpose_last(&ga) } else { ga };
            p.gx(0, ga);
        }
        if p.wants(1) {
            let a = if ta { a } else { p.em.transpose_last(&a) };
            let gb = p.em.matmul(&a, &gy);
            let gb = if tb { p.em.transpose_last(&gb) } else { gb };
            p.gx(1, gb);
        }
        return Ok(());
    }
    if a.batch.is_some() && b.batch.is_some() {
        return Err(p.refuse("both of its factors depend on the sample", "write it as a batched MatMul"));
    }
    let (m, n) = (p.y().shape[0], p.y().shape[1]);
    let k = a.shape[1 ^ ta as usize];
    if p.wants(0) {
        if a.batch.is_some() {
            let ga = if ta { p.em.gemm(&b, tb, &gy, true) } else { p.em.gemm(&gy, false, &b, !tb) };
            p.gx(0, ga);
        } else {
            // Y = A'·B' with samples among the columns: Σ over a sample's columns of dY[:, t] ⊗ B'[:, t].
            let left = Side::positions_last(p.em.per_sample(&gy, &[m, n]));
            let right = p.em.per_sample(&b, &if tb { [n, k] } else { [k, n] });
            let right = if tb { Side::positions_first(right) } else { Side::positions_last(right) };
            let factors = if ta { Factors::new(right, left) } else { Factors::new(left, right) };
            p.gx_factored(0, factors);
        }
    }
    if p.wants(1) {
        if b.batch.is_some() {
            let gb = if tb { p.em.gemm(&gy, true, &a, ta) } else { p.em.gemm(&a, !ta, &gy, false) };
            p.gx(1, gb);
        } else {
            let left = p.em.per_sample(&a, &if ta { [k, m] } else { [m, k] });
            let left = if ta { Side::positions_last(left) } else { Side::positions_first(left) };
            let right = Side::positions_first(p.em.per_sample(&gy, &[m, n]));
            let factors = if tb { Factors::new(right, left) } else { Factors::new(left, right) };
            p.gx_factored(1, factors);
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
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
    let turned = left.node_at("Transpose", &[x], vec![], &[3, 1], columns);
    let u = left.node_at("Gemm", &[w, turned, c], flags(1, 0), &[4, 1], columns);
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
