//! `MatMul`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
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
    let perm = vec![damper_onnx::make_attr_ints("perm", &[1, 0, 2])];
    let stacked_rows_y = stacked_rows.node("Transpose", &[rows], perm, &[1, 2, 4]);

    let mut column = GraphBuilder::new(17);
    let (x, w) = (column.activation(&[2, 5]), column.param(&[5, 1]));
    let column_y = column.node("MatMul", &[x, w], vec![], &[1, 2, 1]);

    let mut row = GraphBuilder::new(17);
    let (x, w) = (row.activation(&[5]), row.param(&[1, 5]));
    let columns = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
    let transposed = row.node_at("Transpose", &[x], vec![], &[5, 1], columns);
    let row_y = row.node_at("MatMul", &[w, transposed], vec![], &[1, 1], columns);
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
