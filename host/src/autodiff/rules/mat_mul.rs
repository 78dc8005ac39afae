//! `MatMul`: `Y = A·B` over the last two axes, leading axes broadcast ⇒ `dA = dY·Bᵀ`, `dB = Aᵀ·dY`.
//!
//! A matrix that is not batched gets factors, its positions being all that is not contracted. So does a stack of
//! matrices whose leading axes the other factor has too: they become the group axis. Otherwise the product is formed
//! for each sample.

use super::Rule;
use crate::autodiff::emit::Var;
use crate::autodiff::factor::{Factors, Side};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::BatchAxis;

pub const RULE: Rule = Rule { op: "MatMul", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (xa, xb, gy) = (p.x(0), p.x(1), p.gy());
    // A vector is a matrix with one row (on the left) or one column (on the right).
    let a = if xa.rank() == 1 { p.em.reshape(&xa, &[1, xa.shape[0]], None) } else { xa.clone() };
    let b = if xb.rank() == 1 { p.em.reshape(&xb, &[xb.shape[0], 1], None) } else { xb.clone() };
    let gy = match (xa.rank(), xb.rank()) {
        (1, 1) => {
            let shape = [&gy.shape[..], &[1, 1]].concat();
            p.em.reshape(&gy, &shape, gy.batch)
        }
        (1, _) => insert_axis(p, &gy, gy.rank() - 1),
        (_, 1) => insert_axis(p, &gy, gy.rank()),
        _ => gy,
    };
    for i in 0..2 {
        if !p.wants(i) {
            continue;
        }
        let (own, other) = if i == 0 { (&a, &b) } else { (&b, &a) };
        if own.batch.is_none() && other.batch.is_some() {
            match factors(p, i, own, other, &gy) {
                Some(factors) => {
                    let factors = factors.reshape(&p.x(i).shape);
                    p.gx_factored(i, factors);
                    continue;
                }
                None => {
                    let g = by_sample(p, &gy, gy.rank());
                    let other = by_sample(p, other, gy.rank());
                    product(p, i, &other, &g);
                    continue;
                }
            }
        }
        product(p, i, other, &gy);
    }
    Ok(())
}

/// The gradient of input `i` as a plain product.
fn product(p: &mut Pull<'_>, i: usize, other: &Var, gy: &Var) {
    let turned = p.em.transpose_last(other);
    let gx = if i == 0 { p.em.matmul(gy, &turned) } else { p.em.matmul(&turned, gy) };
    // A column that was a vector loses its second axis again; a row's first is summed away with the leading axes.
    let gx = if i == 1 && p.x(1).rank() == 1 {
        let shape = gx.shape[..gx.rank() - 1].to_vec();
        p.em.reshape(&gx, &shape, gx.batch)
    } else {
        gx
    };
    p.gx(i, gx);
}

fn insert_axis(p: &mut Pull<'_>, x: &Var, at: usize) -> Var {
    let mut shape = x.shape.clone();
    shape.insert(at, 1);
    let batch = x.batch.map(|b| BatchAxis { axis: b.axis + (b.axis >= at) as usize, ..b });
    p.em.reshape(x, &shape, batch)
}

/// `[N, *shape]`, with `shape` filled up to `rank` axes.
fn by_sample(p: &mut Pull<'_>, x: &Var, rank: usize) -> Var {
    let mut shape = vec![1; rank - x.rank()];
    shape.extend(&x.shape);
    p.em.per_sample(x, &shape)
}

/// Factors of input `i`, a matrix or a stack of them; `None` where the other input is broadcast against the stack.
fn factors(p: &mut Pull<'_>, i: usize, own: &Var, other: &Var, gy: &Var) -> Option<Factors> {
    let rank = gy.rank();
    let filled = |v: &Var| [&vec![1; rank - v.rank()][..], &v.shape[..]].concat();
    let (own_shape, other_shape) = (filled(own), filled(other));
    let lead = rank - 2;
    let is_group = |axis: &usize| own_shape[*axis] != 1;
    if (0..lead).any(|axis| is_group(&axis) && other_shape[axis] != gy.shape[axis]) {
        return None;
    }
    if other_shape[..lead] != gy.shape[..lead] {
        return None;
    }
    let groups: Vec<usize> = (0..lead).filter(is_group).collect();
    let shared: Vec<usize> = (0..lead).filter(|axis| !is_group(axis)).collect();
    let group_count: usize = groups.iter().map(|&axis| own_shape[axis]).product();

    // The axis that both keep is the position: rows of A and Y for a weight on the right, columns of B and Y on the left.
    let mut side = |x: &Var, kept: usize, contracted: usize| {
        let shape = filled(x);
        let width = shape[contracted];
        let positions = shared.iter().map(|&axis| shape[axis]).product::<usize>() * shape[kept];
        let by_sample = p.em.per_sample(x, &shape);
        if groups.is_empty() && kept == rank - 1 && positions == shape[kept] {
            return Side::positions_last(p.em.per_sample(&by_sample, &[width, positions]));
        }
        let order: Vec<usize> =
            shared.iter().chain([&kept]).chain(&groups).chain([&contracted]).map(|axis| axis + 1).collect();
        let moved = p.em.transpose(&by_sample, &[&[0], &order[..]].concat());
        let target: &[usize] = if groups.is_empty() { &[positions, width] } else { &[positions, group_count, width] };
        Side::positions_first(p.em.per_sample(&moved, target))
    };
    let (rows, columns) = (rank - 2, rank - 1);
    Some(if i == 1 {
        Factors::new(side(other, rows, columns), side(gy, rows, columns))
    } else {
        Factors::new(side(gy, columns, rows), side(other, columns, rows))
    })
}

fn cases() -> Vec<Case> {
    let mut right = GraphBuilder::new(17);
    let (x, w) = (right.activation(&[3]), right.param(&[3, 4]));
    let right_y = right.node("MatMul", &[x, w], vec![], &[1, 4]);

    let mut positions = GraphBuilder::new(17);
    let (x, w) = (positions.activation(&[2, 5, 3]), positions.param(&[3, 4]));
    let positions_y = positions.node("MatMul", &[x, w], vec![], &[1, 2, 5, 4]);

    let mut left = GraphBuilder::new(17);
    let (x, w) = (left.activation(&[3, 5]), left.param(&[4, 3]));
    let left_y = left.node("MatMul", &[w, x], vec![], &[1, 4, 5]);

    let mut left_stack = GraphBuilder::new(17);
    let (x, w) = (left_stack.activation(&[2, 3, 5]), left_stack.param(&[4, 3]));
    let left_stack_y = left_stack.node("MatMul", &[w, x], vec![], &[1, 2, 4, 5]);

    let mut heads = GraphBuilder::new(17);
    let (x, w) = (heads.activation(&[2, 5, 3]), heads.param(&[2, 3, 4]));
    let heads_y = heads.node("MatMul", &[x, w], vec![], &[1, 2, 5, 4]);

    let mut heads_left = GraphBuilder::new(17);
    let (x, w) = (heads_left.activation(&[2, 3, 5]), heads_left.param(&[1, 2, 4, 3]));
    let heads_left_y = heads_left.node("MatMul", &[w, x], vec![], &[1, 2, 4, 5]);

    let mut spread = GraphBuilder::new(17);
    let (x, w) = (spread.activation(&[1, 5, 3]), spread.param(&[2, 3, 4]));
    let spread_y = spread.node("MatMul", &[x, w], vec![], &[1, 2, 5, 4]);

    let mut both = GraphBuilder::new(17);
    let (x, z) = (both.activation(&[2, 5, 3]), both.activation(&[2, 3, 4]));
    let both_y = both.node("MatMul", &[x, z], vec![], &[1, 2, 5, 4]);

    let mut both_broadcast = GraphBuilder::new(17);
    let (x, z) = (both_broadcast.activation(&[2, 5, 3]), both_broadcast.activation(&[1, 3, 4]));
    let both_broadcast_y = both_broadcast.node("MatMul", &[x, z], vec![], &[1, 2, 5, 4]);

    let mut vector = GraphBuilder::new(17);
    let (x, w) = (vector.activation(&[5, 3]), vector.param(&[3]));
    let vector_y = vector.node("MatMul", &[x, w], vec![], &[1, 5]);

    let mut vector_left = GraphBuilder::new(17);
    let (x, w) = (vector_left.activation(&[3, 5]), vector_left.param(&[3]));
    let vector_left_y = vector_left.node("MatMul", &[w, x], vec![], &[1, 5]);

    let mut low_rank = GraphBuilder::new(17);
    let (x, l, r) = (low_rank.activation(&[3]), low_rank.param(&[3, 2]), low_rank.param(&[2, 4]));
    let product = low_rank.node("MatMul", &[l, r], vec![], &[3, 4]);
    let low_rank_y = low_rank.node("MatMul", &[x, product], vec![], &[1, 4]);

    let mut tied = GraphBuilder::new(17);
    let (x, w) = (tied.activation(&[5, 3]), tied.param(&[3, 3]));
    let once = tied.node("MatMul", &[x, w], vec![], &[1, 5, 3]);
    let twice = tied.node("MatMul", &[once, w], vec![], &[1, 5, 3]);

    let mut mixed = GraphBuilder::new(17);
    let (x, w) = (mixed.activation(&[5, 3]), mixed.param(&[3, 3]));
    let once = mixed.node("MatMul", &[x, w], vec![], &[1, 5, 3]);
    let corner = mixed.node("Reshape", &[once], vec![], &[1, 5, 3, 1]);
    let stretched = mixed.node("Mul", &[corner, w], vec![], &[1, 5, 3, 3]);

    let merged_axis = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
    let mut merged = GraphBuilder::new(17);
    let (x, w) = (merged.activation(&[2, 5, 3]), merged.param(&[3, 4]));
    let rows = merged.node_at("Reshape", &[x], vec![], &[2, 5, 3], merged_axis);
    let rows = merged.node_at("MatMul", &[rows, w], vec![], &[2, 5, 4], merged_axis);
    let merged_y = merged.node("Reshape", &[rows], vec![], &[1, 2, 5, 4]);

    let mut merged_both = GraphBuilder::new(17);
    let (x, z) = (merged_both.activation(&[2, 5, 3]), merged_both.activation(&[2, 3, 4]));
    let left_rows = merged_both.node_at("Reshape", &[x], vec![], &[2, 5, 3], merged_axis);
    let right_rows = merged_both.node_at("Reshape", &[z], vec![], &[2, 3, 4], merged_axis);
    let rows = merged_both.node_at("MatMul", &[left_rows, right_rows], vec![], &[2, 5, 4], merged_axis);
    let merged_both_y = merged_both.node("Reshape", &[rows], vec![], &[1, 2, 5, 4]);

    let mut merged_left = GraphBuilder::new(17);
    let (x, w) = (merged_left.activation(&[2, 3, 5]), merged_left.param(&[4, 3]));
    let rows = merged_left.node_at("Reshape", &[x], vec![], &[2, 3, 5], merged_axis);
    let rows = merged_left.node_at("MatMul", &[w, rows], vec![], &[2, 4, 5], merged_axis);
    let merged_left_y = merged_left.node("Reshape", &[rows], vec![], &[1, 2, 4, 5]);

    let mut broadcast_left = GraphBuilder::new(17);
    let (x, z) = (broadcast_left.activation(&[1, 5, 3]), broadcast_left.activation(&[2, 3, 4]));
    let broadcast_left_y = broadcast_left.node("MatMul", &[x, z], vec![], &[1, 2, 5, 4]);

    let mut stacked_rows = GraphBuilder::new(17);
    let (x, w) = (stacked_rows.activation(&[3]), stacked_rows.param(&[2, 3, 4]));
    let middle = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
    let rows = stacked_rows.node_at("MatMul", &[x, w], vec![], &[2, 1, 4], middle);
    let perm = vec![crate::onnx::make_attr_ints("perm", &[1, 0, 2])];
    let stacked_rows_y = stacked_rows.node("Transpose", &[rows], perm, &[1, 2, 4]);

    let mut column = GraphBuilder::new(17);
    let (x, w) = (column.activation(&[2, 5]), column.param(&[5, 1]));
    let column_y = column.node("MatMul", &[x, w], vec![], &[1, 2, 1]);

    let mut row = GraphBuilder::new(17);
    let (x, w) = (row.activation(&[5]), row.param(&[1, 5]));
    let columns = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
    let turned = row.node_at("Transpose", &[x], vec![], &[5, 1], columns);
    let row_y = row.node_at("MatMul", &[w, turned], vec![], &[1, 1], columns);
    let row_y = row.node_at("Transpose", &[row_y], vec![], &[1, 1], Some(BatchAxis { axis: 0, outer: 1, inner: 1 }));

    let mut vector_stack = GraphBuilder::new(17);
    let (x, v, w) = (vector_stack.activation(&[2, 4]), vector_stack.param(&[3]), vector_stack.param(&[2, 3, 4]));
    let product = vector_stack.node("MatMul", &[v, w], vec![], &[2, 4]);
    let vector_stack_y = vector_stack.node("Mul", &[x, product], vec![], &[1, 2, 4]);

    vec![
        merged.case("rows merged into the batch", merged_y),
        merged_both.case("batched by batched, both merged", merged_both_y),
        merged_left.case("weight on the left of merged rows", merged_left_y),
        broadcast_left.case("batched by batched, the left one broadcast", broadcast_left_y),
        stacked_rows.case("rows that are samples by a stack of weights", stacked_rows_y),
        column.case("one column", column_y),
        row.case("one row, with the samples along the columns", row_y),
        vector_stack.case("a vector by a stack of parameters", vector_stack_y),
        right.case("weight on the right", right_y),
        positions.case("many positions", positions_y),
        left.case("weight on the left", left_y),
        left_stack.case("weight on the left of a stack", left_stack_y),
        heads.case("a weight for each head", heads_y),
        heads_left.case("a weight for each head, on the left", heads_left_y),
        spread.case("an activation spread over heads", spread_y),
        both.case("batched by batched", both_y),
        both_broadcast.case("batched by batched, broadcast", both_broadcast_y),
        vector.case("a vector on the right", vector_y),
        vector_left.case("a vector on the left", vector_left_y),
        low_rank.case("product of two parameters", low_rank_y),
        tied.case("one weight used twice", twice),
        mixed.case("one weight used as a matrix and elementwise", stretched),
    ]
}
