//! `MatMul`: `Y = A·B` over the last two axes, with leading axes broadcast ⇒ `dA = dY·Bᵀ`, `dB = Aᵀ·dY`.
//!
//! The gradient of a matrix that is not batched is factored. Its positions are all axes that are not contracted. The
//! same holds for a stack of matrices if the other operand also has its leading axes, which become the group axis.
//! Otherwise the product is computed for each sample.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::Var;
use crate::factor::{FactorSide, FactoredGrad};
use damper_onnx::graph::BatchAxis;

pub const RULE: GradRule = GradRule { op: "MatMul", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
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

/// Gradient of input `i` as a plain product.
fn product(p: &mut BackwardContext<'_>, i: usize, other: &Var, gy: &Var) {
    let transposed = p.em.transpose_last(other);
    let gx = if i == 0 { p.em.matmul(gy, &transposed) } else { p.em.matmul(&transposed, gy) };
    // A column that was a vector drops its second axis again. The first axis of a row is summed with the leading axes.
    let gx = if i == 1 && p.x(1).rank() == 1 {
        let shape = gx.shape[..gx.rank() - 1].to_vec();
        p.em.reshape(&gx, &shape, gx.batch)
    } else {
        gx
    };
    p.gx(i, gx);
}

fn insert_axis(p: &mut BackwardContext<'_>, x: &Var, at: usize) -> Var {
    let mut shape = x.shape.clone();
    shape.insert(at, 1);
    let batch = x.batch.map(|b| BatchAxis { axis: b.axis + (b.axis >= at) as usize, ..b });
    p.em.reshape(x, &shape, batch)
}

/// `[N, *shape]`, with `shape` extended to `rank` axes.
fn by_sample(p: &mut BackwardContext<'_>, x: &Var, rank: usize) -> Var {
    let mut shape = vec![1; rank - x.rank()];
    shape.extend(&x.shape);
    p.em.per_sample(x, &shape)
}

/// Factors for input `i`, a matrix or a stack of matrices. `None` if the other input is broadcast against the stack.
fn factors(p: &mut BackwardContext<'_>, i: usize, own: &Var, other: &Var, gy: &Var) -> Option<FactoredGrad> {
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

    // The axis that both keep is the position. For a weight on the right it is the rows of A and Y, and for a weight on
    // the left the columns of B and Y.
    let mut side = |x: &Var, kept: usize, contracted: usize| {
        let shape = filled(x);
        let width = shape[contracted];
        let positions = shared.iter().map(|&axis| shape[axis]).product::<usize>() * shape[kept];
        let by_sample = p.em.per_sample(x, &shape);
        if groups.is_empty() && kept == rank - 1 && positions == shape[kept] {
            return FactorSide::positions_last(p.em.per_sample(&by_sample, &[width, positions]));
        }
        let order: Vec<usize> =
            shared.iter().chain([&kept]).chain(&groups).chain([&contracted]).map(|axis| axis + 1).collect();
        let moved = p.em.transpose(&by_sample, &[&[0], &order[..]].concat());
        let target: &[usize] = if groups.is_empty() { &[positions, width] } else { &[positions, group_count, width] };
        FactorSide::positions_first(p.em.per_sample(&moved, target))
    };
    let (rows, columns) = (rank - 2, rank - 1);
    Some(if i == 1 {
        FactoredGrad::new(side(other, rows, columns), side(gy, rows, columns))
    } else {
        FactoredGrad::new(side(gy, columns, rows), side(other, columns, rows))
    })
}
