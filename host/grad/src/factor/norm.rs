//! Squared norms of factored gradients, without the gradients: `‖Σ_t l_t ⊗ r_t‖² = Σ_{t,t'} ⟨l_t, l_t'⟩ ⟨r_t, r_t'⟩`,
//! with one Gram matrix over the positions for each factor.
//!
//! For two unit vectors given by indices, the inner product is 1 if the indices are equal, else 0. For a unit vector
//! and a dense factor, it is the entry at the index. So an embedding tied to an output layer takes three blocks: index
//! with index, index with dense, and dense with dense. This adds no tensor of positions by vocabulary size. Groups are
//! separate matrices, and their squared norms add up.
//!
//! # Numerics
//!
//! Sums use two stages of the [`Emitter`]'s ordered sums. One long sum, and the runtimes' own sums of squares, are
//! biased low. Results from Gram matrices may have rounding errors of the order of `(Σ_t |l_t| |r_t|)²`, which is far
//! above the squared norm if positions cancel. So [`norm_squared`] also returns this scale, and [`rounding`] bounds the
//! error in units of its rounding. The bound is the square root of the lengths of the sums. Random rounding errors
//! exceed it with negligible probability (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019). The maximum loss of its
//! squares by underflow is added to `|l_t|²`. The loss matters because the other factor may be as large as this factor
//! is small.

use super::side::FactorSide;
use super::{FactoredGrad, Term};
use crate::custom::squared_norms;
use crate::emit::{BATCH_FIRST, Emitter, Var};
use damper_onnx::graph::DType;
use damper_onnx::make_attr_int;

/// Cost of writing and reading a float, in multiply-adds.
const TRAFFIC: usize = 8;

/// Maximum length of a sum in one stage.
const STAGE: usize = 256;

/// Multiply-adds per sample, including floats written, for the two ways to compute a squared norm (and a weighted sum).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// By Gram matrices, and a contraction of the factors.
    pub gram: usize,
    /// By the gradient itself.
    pub materialised: usize,
}

impl Costs {
    /// Costs of the squared norm of `factors`, and with `sum` also of the weighted sum.
    pub fn of(factors: &FactoredGrad, sum: bool) -> Self {
        let groups = factors.groups().unwrap_or(1);
        let (rows, columns) = factors.extents();
        let entries = groups * rows * columns;
        let (mut gram, mut product, mut copies) = (0usize, 0usize, 0usize);
        // Joined terms of one kind are one term, so their cross blocks count, too.
        for (i, a) in factors.terms.iter().enumerate() {
            for b in &factors.terms[i..] {
                let inner =
                    |a: &FactorSide, b: &FactorSide| if a.is_indices() || b.is_indices() { 1 } else { a.extent() };
                let each = inner(&a.left, &b.left) + inner(&a.right, &b.right) + 1 + 3 * TRAFFIC;
                let pairs =
                    if a.positions() == 1 && factors.terms.len() == 1 { 1 } else { a.positions() * b.positions() };
                gram = gram.saturating_add(pairs.saturating_mul(groups * each));
            }
            let width = if a.left.is_indices() {
                columns
            } else if a.right.is_indices() {
                rows
            } else {
                rows * columns
            };
            product = product.saturating_add(a.positions().saturating_mul(groups * width));
            copies = copies.saturating_add(2 * groups * a.positions() * (rows.min(columns) + TRAFFIC));
        }
        let norm = entries.saturating_mul(1 + TRAFFIC);
        let weighted = entries.saturating_mul(1 + TRAFFIC);
        let materialised = product.saturating_add(norm).saturating_add(if sum { weighted } else { 0 });
        let gram = if sum { gram.saturating_add(product).saturating_add(copies) } else { gram };
        Self { gram, materialised }
    }
}

/// Squared norm of each sample's gradient, `[N]`, and the scale of its rounding errors, `[N]`.
pub fn norm_squared(em: &mut Emitter, factors: &FactoredGrad) -> (Var, Var) {
    let terms = factors.joined(em);
    let lengths: Vec<Var> = terms
        .iter()
        .map(|term| {
            let squares = position_squares(em, term, true);
            let lengths = em.unary("Sqrt", &squares);
            em.reduce_sum(&lengths, &[lengths.rank() - 2], true)
        })
        .collect();
    let length = add_all(em, &lengths);
    let scatter = em.mul(&length, &length);
    let scatter = sum_each(em, &scatter);
    if let [term] = &terms[..]
        && term.positions() == 1
    {
        let squares = position_squares(em, term, false);
        return (sum_each(em, &squares), scatter);
    }
    let mut parts = Vec::new();
    for (i, a) in terms.iter().enumerate() {
        for (j, b) in terms.iter().enumerate().skip(i) {
            let left = gram(em, &a.left, &b.left, a.dtype());
            let right = gram(em, &a.right, &b.right, a.dtype());
            let product = em.mul(&left, &right);
            let sum = sum_each(em, &product);
            parts.push(if i == j { sum } else { em.scale(&sum, 2.0) });
        }
    }
    let total = add_all(em, &parts);
    (non_negative(em, &total), scatter)
}

/// Bound on the error of [`norm_squared`]'s first result, in units of rounding of the second.
pub fn rounding(factors: &FactoredGrad) -> f64 {
    let positions: usize = factors.terms.iter().map(Term::positions).sum();
    let extent = |side: &FactorSide| if side.is_indices() { 1 } else { side.extent() };
    let longest = factors.terms.iter().map(|term| extent(&term.left) + extent(&term.right)).max().unwrap_or(0);
    let pairs = positions.saturating_mul(positions).min(2 * STAGE);
    ((longest + pairs) as f64).sqrt()
}

/// `max(x, 0)`, or NaN if `x` is NaN.
fn non_negative(em: &mut Emitter, x: &Var) -> Var {
    let zero = em.scalar(x.dtype, 0.0);
    let is_negative = em.compare("Less", x, &zero);
    em.choose(&is_negative, &zero, x)
}

/// Sum of tensors of the same shape.
fn add_all(em: &mut Emitter, parts: &[Var]) -> Var {
    let (first, rest) = parts.split_first().expect("at least one");
    rest.iter().fold(first.clone(), |sum, part| em.add(&sum, part))
}

/// `⟨a_t, b_t'⟩`: `[N, (g,) T, T']` of float type `dtype`.
fn gram(em: &mut Emitter, a: &FactorSide, b: &FactorSide, dtype: DType) -> Var {
    match (a.is_indices(), b.is_indices()) {
        (false, false) => {
            let (a, b) = (a.with_positions_inside(em), b.with_positions_last(em));
            em.matmul(&a, &b)
        }
        (true, true) => {
            let rows = em.per_sample(&a.var, &[a.positions(), 1]);
            let columns = em.per_sample(&b.var, &[1, b.positions()]);
            let equal = em.compare("Equal", &rows, &columns);
            em.cast(&equal, dtype)
        }
        (true, false) => pick(em, a, b),
        (false, true) => {
            let transposed = pick(em, b, a);
            em.transpose(&transposed, &[0, 2, 1])
        }
    }
}

/// Entries of `dense` at the positions' indices: `[N, T, T']`.
fn pick(em: &mut Emitter, indices: &FactorSide, dense: &FactorSide) -> Var {
    let dense = &dense.unfolded(em);
    let (of_indices, of_dense) = (indices.positions(), dense.positions());
    let axis = |axis| vec![make_attr_int("axis", axis)];
    if dense.has_positions_last() {
        let at = indices.spread_indices(em, of_dense, false);
        let shape = vec![1, of_indices, of_dense];
        return em.node("GatherElements", &[&dense.var, &at], axis(1), dense.var.dtype, shape, Some(BATCH_FIRST));
    }
    let at = indices.spread_indices(em, of_dense, true);
    let shape = vec![1, of_dense, of_indices];
    let picked = em.node("GatherElements", &[&dense.var, &at], axis(2), dense.var.dtype, shape, Some(BATCH_FIRST));
    em.transpose(&picked, &[0, 2, 1])
}

/// `|l_t|² |r_t|²`: `[N, (g,) T, 1]`. With `above`, each squared norm is an upper bound that includes losses by
/// underflow.
fn position_squares(em: &mut Emitter, term: &Term, above: bool) -> Var {
    let squares = |em: &mut Emitter, side: &FactorSide| {
        (!side.is_indices()).then(|| {
            let rows = side.with_positions_inside(em);
            let squares = em.mul(&rows, &rows);
            let sum = em.reduce_sum(&squares, &[rows.rank() - 1], true);
            if !above {
                return sum;
            }
            let least = match rows.dtype {
                DType::F64 => f64::MIN_POSITIVE / f64::EPSILON,
                _ => f64::from(f32::MIN_POSITIVE / f32::EPSILON),
            };
            let least = em.scalar(rows.dtype, 2.0 * least * side.extent() as f64);
            em.add(&sum, &least)
        })
    };
    match (squares(em, &term.left), squares(em, &term.right)) {
        (Some(left), Some(right)) => em.mul(&left, &right),
        (left, right) => left.or(right).expect("at most one side is indices"),
    }
}

/// Sum of the squares of each sample's elements, `[N]`.
pub fn sum_of_squares(em: &mut Emitter, x: &Var) -> Var {
    squared_norms(em, x, |em| {
        let squares = em.mul(x, x);
        sum_each(em, &squares)
    })
}

/// Sum of each sample's elements, `[N]`, in stages short enough to avoid a loss of small terms. It sums over columns
/// while there are many elements, then over the remaining row.
///
/// (A product with an all-one vector directly after a broadcast makes tract's optimizer fail, so there is always a sum
/// over columns. These columns must not be axes of `x`. Both runtimes move a transpose from before a sum to after it,
/// and would then sum rows, whose bits depend on their addresses.)
fn sum_each(em: &mut Emitter, x: &Var) -> Var {
    let len = x.len();
    if len == 1 {
        return em.per_sample(x, &[]);
    }
    let is_of_axes = |height: usize| {
        let products = x.shape.iter().scan(1, |product, d| {
            *product *= d;
            Some(*product)
        });
        products.into_iter().any(|product| product == height)
    };
    let divides = |height: &usize| len.is_multiple_of(*height) && !is_of_axes(*height);
    let Some(height) = (2..=STAGE.min(len / 2)).rev().find(divides) else {
        let row = em.per_sample(x, &[len]);
        let padded = em.pad(&row, &[(0, 0), (0, (len + 1).next_multiple_of(4) - len)], 0.0);
        return sum_each(em, &padded);
    };
    let columns = em.per_sample(x, &[height, len / height]);
    let sums = em.reduce_sum(&columns, &[1], false);
    if sums.len() > STAGE { sum_each(em, &sums) } else { em.reduce_sum(&sums, &[1], false) }
}
