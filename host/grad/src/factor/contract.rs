//! Weighted sum of factored gradients over the samples, without the gradients. It is one product over samples and
//! positions together, `Σ_n w_n Σ_t l_{n,t} ⊗ r_{n,t} = Lᵀ (w · R)` with `L: [N·T, r]`, `R: [N·T, c]`.
//!
//! The weights multiply the smaller factor. Rows of excluded samples are masked in both factors because NaN · 0 is NaN.
//! For the rows of an embedding, the smaller factor is the dense factor, which is added at the indices.

use super::side::{FactorSide, scatter_add};
use super::{FactoredGrad, Term, View};
use crate::emit::{Emitter, Var};
use damper_onnx::graph::BatchAxis;
use damper_onnx::make_attr_int;

/// `Σ_n weight_n · gradient_n` over the rows with `keep` (bool `[N]`), in the parameter's shape. `weight` `[N]` must be
/// 0 elsewhere.
pub fn weighted_sum(em: &mut Emitter, factors: &FactoredGrad, keep: &Var, weight: &Var) -> Var {
    let terms: Vec<Term> = factors.joined(em).iter().map(|term| weighted(em, term, keep, weight)).collect();
    let (rows, columns) = factors.extents();
    let mut sum: Option<Var> = None;
    for term in terms.iter().filter(|term| !term.is_indexed()) {
        // The terms without indices were joined, so there is only one.
        sum = Some(contracted(em, term));
    }
    for term in terms.iter().filter(|term| term.is_indexed()) {
        let (indices, dense, width, axis) = if term.left.is_indices() {
            (&term.left, &term.right, columns, 0)
        } else {
            (&term.right, &term.left, rows, 1)
        };
        let onto = sum.unwrap_or_else(|| em.zeros(dense.var.dtype, &[rows, columns]));
        let at = indices.spread_indices(em, width, false);
        let at = merged(em, &at);
        let updates = dense.with_positions_first(em);
        let updates = merged(em, &updates);
        sum = Some(if axis == 0 {
            scatter_add(em, &onto, &at, &updates, 0)
        } else {
            let (at, updates) = (em.transpose(&at, &[1, 0]), em.transpose(&updates, &[1, 0]));
            scatter_add(em, &onto, &at, &updates, 1)
        });
    }
    let mut sum = sum.expect("a gradient has a term");
    for view in &factors.views {
        sum = match view {
            View::Reshape(shape) => em.reshape(&sum, shape, None),
            View::Transpose(perm) => em.transpose(&sum, perm),
        };
    }
    sum
}

/// Masks the rows of the term and multiplies its smaller factor by the weights.
fn weighted(em: &mut Emitter, term: &Term, keep: &Var, weight: &Var) -> Term {
    let mask = |em: &mut Emitter, side: &FactorSide| match side.is_indices() {
        true => side.clone(),
        false => side.map(|var| em.masked(var, keep)),
    };
    let (mut left, mut right) = (mask(em, &term.left), mask(em, &term.right));
    let smaller = if right.is_indices() || (!left.is_indices() && left.var.len() <= right.var.len()) {
        &mut left
    } else {
        &mut right
    };
    let weight = em.per_sample(weight, &vec![1; smaller.var.rank() - 1]);
    *smaller = smaller.map(|var| em.mul(var, &weight));
    Term { left, right }
}

/// Reshapes `[N, T, r]` to `[N·T, r]`.
fn merged(em: &mut Emitter, x: &Var) -> Var {
    let (positions, width) = (x.shape[1], x.shape[2]);
    em.reshape(x, &[positions, width], Some(BatchAxis { axis: 0, outer: 1, inner: positions }))
}

/// `[(g,) r, c]` of a term without indices, summed over samples and positions.
fn contracted(em: &mut Emitter, term: &Term) -> Var {
    let (rows, columns) = (term.left.extent(), term.right.extent());
    let dtype = term.left.var.dtype;
    let (left, right) = (term.left.with_positions_first(em), term.right.with_positions_first(em));
    match term.left.groups() {
        None => {
            let (left, right) = (merged(em, &left), merged(em, &right));
            let turn = vec![make_attr_int("transA", 1)];
            em.node("Gemm", &[&left, &right], turn, dtype, vec![rows, columns], None)
        }
        Some(groups) => {
            let positions = term.positions();
            // [N, T, g, r] to [g, r, N·T], and [N, T, g, c] to [g, N·T, c].
            let left = em.transpose(&left, &[2, 3, 0, 1]);
            let axis = BatchAxis { axis: 2, outer: 1, inner: positions };
            let left = em.reshape(&left, &[groups, rows, positions], Some(axis));
            let right = em.transpose(&right, &[2, 0, 1, 3]);
            let axis = BatchAxis { axis: 1, outer: 1, inner: positions };
            let right = em.reshape(&right, &[groups, positions, columns], Some(axis));
            em.node("MatMul", &[&left, &right], vec![], dtype, vec![groups, rows, columns], None)
        }
    }
}
