//! `Gather`: `Y` = the rows of `X` along an axis that indices name ⇒ row `v` of `dX` = the sum of the rows of `dY` that
//! came from `v`.
//!
//! Indices known now are undone by padding or by looking up in turn. Those that are data, into a table that is the same for
//! all samples (an embedding), are a factor of the gradient of its rows, and stay indices; of its columns, it is a product with
//! the indices one-hot.

use super::Rule;
use crate::autodiff::factor::{Factors, Side};
use crate::autodiff::lookup::{around, checked, embedding_gradient, put_back};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::graph::{BatchAxis, DType};
use crate::onnx::make_attr_int;

pub const RULE: Rule = Rule { op: "Gather", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, index, gy) = (p.x(0), p.x(1), p.gy());
    let axis = p.int("axis", 0) as usize;
    let extent = x.shape[axis];
    if index.batch.is_none() {
        let Some(indices) = p.constant_ints(1) else {
            return Err(p.refuse("its indices are computed from parameters", "use constant indices, or data"));
        };
        let indices: Vec<usize> = indices.iter().map(|&i| i as usize).collect();
        let axis = axis + p.shift();
        // The indices' axes as one.
        let mut shape = gy.shape[..axis].to_vec();
        shape.push(indices.len());
        shape.extend(&gy.shape[axis + index.rank()..]);
        let batch =
            gy.batch.map(|b| if b.axis < axis { b } else { BatchAxis { axis: b.axis + 1 - index.rank(), ..b } });
        let rows = p.em.reshape(&gy, &shape, batch);
        let gx = put_back(p.em, &rows, axis, &indices, extent);
        p.gx(0, gx);
        return Ok(());
    }
    let [before, _, after] = around(&x.shape, axis);
    let index = p.em.per_sample(&index, &[index.len()]);
    let index = checked(p.em, &index, extent).index;
    if before == 1 {
        let rows = p.em.per_sample(&gy, &[index.len(), after]);
        let table = Side::indices(p.em, &index, extent, gy.dtype);
        p.gx_factored(0, Factors::new(table, Side::positions_first(rows)).reshape(&x.shape));
        return Ok(());
    }
    let grad = p.em.per_sample(&gy, &[before, index.len(), after]);
    let gx = embedding_gradient(p.em, &index, &grad, extent);
    let gx = p.em.reshape(&gx, &[&[1], &x.shape[..]].concat(), Some(BATCH_FIRST));
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let axis = |axis| vec![make_attr_int("axis", axis)];
    let looked_up = |name, table: &[usize], at: i64, ids: &[usize], out: &[usize]| {
        let mut b = GraphBuilder::new(13);
        let (table, ids) = (b.param(table), b.ids(ids));
        let place = BatchAxis { axis: at as usize, ..BATCH_FIRST };
        let y = b.node_at("Gather", &[table, ids], axis(at), out, Some(place));
        b.case(name, y)
    };
    let picked = |name, shape: &[usize], at: i64, indices: &[i64], scalar: bool, out: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation(shape);
        let count = [indices.len()];
        let indices = b.indices(if scalar { &[] } else { &count[..] }, indices);
        let y = b.node("Gather", &[x, indices], axis(at), out);
        b.case(name, y)
    };
    let of_parameter = |name, shape: &[usize], at: i64, rows: &[usize], indices: &[i64], out: &[usize]| {
        let mut b = GraphBuilder::new(21);
        let (x, w) = (b.activation(out), b.param(shape));
        let indices = b.indices(rows, indices);
        let picked = b.node("Gather", &[w, indices], axis(at), out);
        let y = b.node("Mul", &[x, picked], vec![], &[&[1], out].concat());
        b.case(name, y)
    };

    let mut scaled = GraphBuilder::new(17);
    let (table, scale, ids) = (scaled.param(&[4, 3]), scaled.param(&[3]), scaled.ids(&[5]));
    let rows = scaled.node("Mul", &[table, scale], vec![], &[4, 3]);
    let scaled_y = scaled.node_at("Gather", &[rows, ids], axis(0), &[1, 5, 3], Some(BATCH_FIRST));

    let mut merged = GraphBuilder::new(17);
    let (table, ids) = (merged.param(&[4, 3]), merged.ids(&[5]));
    let place = BatchAxis { axis: 0, outer: 1, inner: 5 };
    let flat = merged.node_typed("Reshape", &[ids], vec![], DType::I64, &[5], Some(place));
    let rows = merged.node_at("Gather", &[table, flat], axis(0), &[5, 3], Some(place));
    let merged_y = merged.node("Reshape", &[rows], vec![], &[1, 5, 3]);

    let mut second = GraphBuilder::new(17);
    let x = second.activation(&[3, 4]);
    let place = Some(BatchAxis { axis: 1, ..BATCH_FIRST });
    let turned =
        second.node_at("Transpose", &[x], vec![crate::onnx::make_attr_ints("perm", &[1, 0, 2])], &[3, 1, 4], place);
    let indices = second.indices(&[], &[2]);
    let last = second.node_at("Gather", &[turned, indices], axis(0), &[1, 4], Some(BATCH_FIRST));

    let mut tied = GraphBuilder::new(17);
    let (table, ids) = (tied.param(&[4, 3]), tied.ids(&[5]));
    let rows = tied.node_at("Gather", &[table, ids], axis(0), &[1, 5, 3], Some(BATCH_FIRST));
    let turned = tied.node("Transpose", &[table], vec![], &[3, 4]);
    let scores = tied.node("MatMul", &[rows, turned], vec![], &[1, 5, 4]);

    vec![
        looked_up("an embedding of tokens", &[5, 3], 0, &[6], &[1, 6, 3]),
        looked_up("an embedding of one token a sample", &[4, 3], 0, &[], &[1, 3]),
        looked_up("an embedding of a grid", &[4, 3], 0, &[2, 3], &[1, 2, 3, 3]),
        looked_up("columns of a table", &[2, 5, 3], 1, &[4], &[2, 1, 4, 3]),
        scaled.case("a table computed from parameters", scaled_y),
        merged.case("tokens merged into the batch", merged_y),
        tied.case("a table that is the output layer too", scores),
        picked("neighbouring rows", &[5, 2], 1, &[1, 2, 3], false, &[1, 3, 2]),
        picked("rows in another order", &[4, 2], 1, &[3, 0, 2], false, &[1, 3, 2]),
        picked("rows more than once", &[4, 2], 1, &[3, 0, 3, 3, 1], false, &[1, 5, 2]),
        picked("one row, its axis gone", &[4, 2], 1, &[2], true, &[1, 2]),
        picked("one element of the last axis", &[4, 3], 2, &[0], true, &[1, 4]),
        second.case("one row, the batch on the axis behind", last),
        of_parameter("a part of a parameter", &[3, 4], 0, &[], &[1], &[4]),
        of_parameter("position embeddings", &[6, 3], 0, &[1, 4], &[0, 1, 2, 3], &[1, 4, 3]),
        of_parameter("a table of biases by relative position", &[3, 2], 0, &[2, 2], &[1, 2, 0, 1], &[2, 2, 2]),
    ]
}
