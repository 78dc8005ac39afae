//! `Gather`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
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
    let transposed =
        second.node_at("Transpose", &[x], vec![damper_onnx::make_attr_ints("perm", &[1, 0, 2])], &[3, 1, 4], place);
    let indices = second.indices(&[], &[2]);
    let last = second.node_at("Gather", &[transposed, indices], axis(0), &[1, 4], Some(BATCH_FIRST));

    let mut tied = GraphBuilder::new(17);
    let (table, ids) = (tied.param(&[4, 3]), tied.ids(&[5]));
    let rows = tied.node_at("Gather", &[table, ids], axis(0), &[1, 5, 3], Some(BATCH_FIRST));
    let transposed = tied.node("Transpose", &[table], vec![], &[3, 4]);
    let scores = tied.node("MatMul", &[rows, transposed], vec![], &[1, 5, 4]);

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
