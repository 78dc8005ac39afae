//! `GatherElements`: `Y[i] = X[i with its place along an axis replaced by index[i]]` ⇒ `dX[j]` = the sum of `dY[i]` over
//! the `i` that differ from `j` along the axis alone and looked up `j`.

use super::Rule;
use crate::autodiff::lookup::{around, checked, numbers};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::graph::BatchAxis;
use crate::onnx::make_attr_int;

pub const RULE: Rule = Rule { op: "GatherElements", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, index, gy) = (p.x(0), p.x(1), p.gy());
    let axis = p.int("axis", 0) as usize;
    let ([before, extent, after], [_, count, _]) = (around(&x.shape, axis), around(&index.shape, axis));
    // Both as [N, before, 1, count, after], or without N.
    let rows = [before, 1, count, after];
    let grad = p.em.per_sample(&gy, &rows);
    let index = match index.batch {
        Some(_) => p.em.per_sample(&index, &rows),
        None => p.em.reshape(&index, &rows, None),
    };
    let index = checked(p.em, &index, extent).index;
    let numbers = numbers(p.em, &[extent, 1, 1]);
    let hits = p.em.compare("Equal", &index, &numbers);
    let zero = p.em.scalar(grad.dtype, 0.0);
    let spread = p.em.choose(&hits, &grad, &zero);
    let sums = p.em.reduce_sum(&spread, &[3], false);
    let (shape, batch) = p.layout(0);
    let gx = p.em.as_batched(&sums, &shape, batch);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let by_data = |name, at: i64, ids: &[usize]| {
        let mut b = GraphBuilder::new(13);
        let (x, ids) = (b.activation(&[4, 4]), b.ids(ids));
        let out = b.shape(ids);
        let y = b.node("GatherElements", &[x, ids], axis(at), &out);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[4, 3]));
    let indices = parameter.indices(&[2, 3], &[3, 0, 1, 3, 2, 1]);
    let picked = parameter.node("GatherElements", &[w, indices], axis(0), &[2, 3]);
    let product = parameter.node("Mul", &[x, picked], vec![], &[1, 2, 3]);

    let mut table = GraphBuilder::new(17);
    let (w, ids) = (table.param(&[4, 3]), table.ids(&[3]));
    let looked_up = table.node_at("GatherElements", &[w, ids], axis(0), &[1, 3], Some(BATCH_FIRST));

    let mut second = GraphBuilder::new(17);
    let (x, ids) = (second.activation(&[4, 2]), second.ids(&[3, 2]));
    let (perm, place) =
        (|| vec![crate::onnx::make_attr_ints("perm", &[1, 0, 2])], BatchAxis { axis: 1, ..BATCH_FIRST });
    let turned = second.node_at("Transpose", &[x], perm(), &[4, 1, 2], Some(place));
    let ids = second.node_typed("Transpose", &[ids], perm(), crate::graph::DType::I64, &[3, 1, 2], Some(place));
    let picked = second.node_at("GatherElements", &[turned, ids], axis(0), &[3, 1, 2], Some(place));
    let second_y = second.node_at("Transpose", &[picked], perm(), &[1, 3, 2], Some(BATCH_FIRST));
    vec![
        by_data("one row for each column", 1, &[1, 4]),
        by_data("along the last axis", 2, &[4, 3]),
        parameter.case("of a parameter, by constants", product),
        table.case("of a parameter, by data", looked_up),
        second.case("with the batch on axis 1", second_y),
    ]
}
