//! Matrix products, stacked and strided: `out[i, j] = Σ_k a[i, k] · b[k, j]`, `k` in order, in the [order of sums](crate::sum).
//!
//! Operands are read at strides, so transposes cost nothing. [`product`] is small, for a microcontroller; [`product_wide`] has the same
//! bits, is fast where there are vectors, and takes 5 KB of stack.

use crate::sum::Sum;
use crate::tile::{self, Left, Panel, Place};
use crate::{Error, Walk, check};

/// The shape of products: `stack` of them, each of `a` `[rows, terms]` by `b` `[terms, columns]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    rows: usize,
    columns: usize,
    terms: usize,
    /// From one row of `a` to the next, and from one term.
    a: [usize; 2],
    /// From one term of `b` to the next, and from one column.
    b: [usize; 2],
    stack: Walk<2>,
    /// The least lengths of `a` and `b`.
    needed: [usize; 2],
    len: usize,
}

impl Product {
    /// `rows`, `columns` and `terms`, with the strides of `a` (row, term) and of `b` (term, column), for each position of `stack`, which says
    /// where the matrices begin. `None` where a size overflows.
    #[must_use]
    pub fn new([rows, columns, terms]: [usize; 3], a: [usize; 2], b: [usize; 2], stack: Walk<2>) -> Option<Self> {
        let span = |[first, second]: [usize; 2], [first_stride, second_stride]: [usize; 2]| {
            if first == 0 || second == 0 {
                return Some(0);
            }
            (first - 1).checked_mul(first_stride)?.checked_add((second - 1).checked_mul(second_stride)?)?.checked_add(1)
        };
        let len = stack.len().checked_mul(rows)?.checked_mul(columns)?;
        let needed = |operand, span: usize| match span {
            0 => Some(0),
            _ if stack.is_empty() => Some(0),
            _ => stack.needed(operand).checked_add(span)?.checked_sub(1),
        };
        let needed = [needed(0, span([rows, terms], a)?)?, needed(1, span([terms, columns], b)?)?];
        Some(Self { rows, columns, terms, a, b, stack, needed, len })
    }

    #[inline(always)]
    fn check(&self, a: &[f32], b: &[f32], out: &[f32]) -> Result<(), Error> {
        let [a_needed, b_needed] = self.needed;
        check(a.len() >= a_needed && b.len() >= b_needed && out.len() == self.len)
    }

    /// Hands the operands and the output of each product to `each`.
    #[inline(always)]
    fn each(&self, a: &[f32], b: &[f32], out: &mut [f32], mut each: impl FnMut(&[f32], &[f32], &mut [f32])) {
        let size = self.rows.wrapping_mul(self.columns);
        let [a_stride, b_stride] = self.stack.row_strides();
        self.stack.each_row(|position, [mut a_at, mut b_at]| {
            for position in position..position.wrapping_add(self.stack.row()) {
                let start = position.wrapping_mul(size);
                let Some(out) = out.get_mut(start..start.wrapping_add(size)) else { return };
                each(a.get(a_at..).unwrap_or_default(), b.get(b_at..).unwrap_or_default(), out);
                a_at = a_at.wrapping_add_signed(a_stride);
                b_at = b_at.wrapping_add_signed(b_stride);
            }
        });
    }
}

/// The products of `a` and `b`, into `out` `[stack, rows, columns]`.
///
/// # Errors
///
/// An operand is shorter than the strides need, or `out` has another length.
#[inline(always)]
pub fn product(shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    shape.check(a, b, out)?;
    let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
    shape.each(a, b, out, |a, b, out| {
        for (row, out) in out.chunks_exact_mut(shape.columns.max(1)).enumerate() {
            for (column, out) in out.iter_mut().enumerate() {
                let (mut a_at, mut b_at) = (row.wrapping_mul(a_row), column.wrapping_mul(b_column));
                let mut sum = Sum::default();
                for _ in 0..shape.terms {
                    if let (Some(a), Some(b)) = (a.get(a_at), b.get(b_at)) {
                        sum.add(a * b);
                    }
                    (a_at, b_at) = (a_at.wrapping_add(a_term), b_at.wrapping_add(b_term));
                }
                *out = sum.value();
            }
        }
    });
    Ok(())
}

/// As [`product`], with the same bits, by panels.
///
/// # Errors
///
/// Those of [`product`].
#[inline(always)]
pub fn product_wide(shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    shape.check(a, b, out)?;
    let Product { rows, columns, terms, .. } = *shape;
    if terms == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
    shape.each(a, b, out, |a, b, out| {
        // The longer side of the output is that of the vectors. A product's factors may change places, which changes no bit.
        if columns >= rows || columns >= tile::LANES {
            let left = Left { x: a, row_stride: a_row, term_stride: a_term };
            let pack = |place: Place, panel: &mut Panel| pack_matrix(b, b_term, b_column, place, panel);
            tile::product((rows, columns, terms), left, pack, |row, place, sums| {
                let start = row.wrapping_mul(columns).wrapping_add(place.column);
                let Some(out) = out.get_mut(start..start.wrapping_add(place.columns)) else { return };
                if let (0, Some(out)) = (place.term, out.first_chunk_mut()) {
                    *out = *sums;
                    return;
                }
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = if place.term == 0 { *sum } else { *out + sum };
                }
            });
        } else {
            let left = Left { x: b, row_stride: b_column, term_stride: b_term };
            let pack = |place: Place, panel: &mut Panel| pack_matrix(a, a_term, a_row, place, panel);
            tile::product((columns, rows, terms), left, pack, |row, place, sums| {
                let start = place.column.wrapping_mul(columns).wrapping_add(row);
                let Some(out) = out.get_mut(start..) else { return };
                for (out, sum) in out.iter_mut().step_by(columns).zip(sums).take(place.columns) {
                    *out = if place.term == 0 { *sum } else { *out + sum };
                }
            });
        }
    });
    Ok(())
}

/// The panel of a matrix that is read at strides.
#[inline(always)]
fn pack_matrix(x: &[f32], term_stride: usize, column_stride: usize, place: Place, panel: &mut Panel) {
    let start = place.term.wrapping_mul(term_stride).wrapping_add(place.column.wrapping_mul(column_stride));
    if column_stride == 1 {
        let mut at = start;
        for lanes in panel.iter_mut().take(place.terms) {
            let rest = x.get(at..).unwrap_or_default();
            match rest.first_chunk() {
                // What is behind the last column is another row's, and nobody reads its sums.
                Some(columns) => *lanes = *columns,
                None => lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = *x),
            }
            at = at.wrapping_add(term_stride);
        }
        return;
    }
    for lane in 0..place.columns {
        let from = start.wrapping_add(lane.wrapping_mul(column_stride));
        let column = x.get(from..).unwrap_or_default().iter().step_by(term_stride.max(1));
        for (lanes, x) in panel.iter_mut().take(place.terms).zip(column) {
            if let Some(lane) = lanes.get_mut(lane) {
                *lane = *x;
            }
        }
    }
}
