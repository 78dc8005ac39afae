//! Batched matrix products with strides: `out[i, j] = Σ_k a[i, k] · b[k, j]`, over `k` in the [order of
//! sums](crate::sum).
//!
//! Operands are read with strides, so a transpose costs nothing.

use crate::sum::BLOCK;
use crate::tile::{self, Columns, Lanes, Panel, PanelRange, Rows, Strided};
use crate::{Error, Walk, check};

/// Shape of `stack` products, each of `a` `[rows, terms]` by `b` `[terms, columns]`. [`Product::new`] checks it.
///
/// ```
/// use damper_nn::{Narrow, Walk, product::{Product, product}};
///
/// // [2, 2] by [2, 2], and by the transpose of the second.
/// let stack = Walk::broadcast(&[1], [&[1], &[1]]).unwrap();
/// let (a, b, mut out) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [0.0; 4]);
/// product::<Narrow>(&Product::new([2, 2, 2], [2, 1], [2, 1], stack).unwrap(), &a, &b, &mut out)?;
/// assert_eq!(out, [19.0, 22.0, 43.0, 50.0]);
/// product::<Narrow>(&Product::new([2, 2, 2], [2, 1], [1, 2], stack).unwrap(), &a, &b, &mut out)?;
/// assert_eq!(out, [17.0, 23.0, 39.0, 53.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Product {
    /// Number of rows of `a`.
    pub rows: usize,
    /// Number of columns of `b`.
    pub columns: usize,
    /// Number of columns of `a`, which is the number of rows of `b`.
    pub terms: usize,
    /// Strides of `a`: between rows, and between terms.
    pub a: [usize; 2],
    /// Strides of `b`: between terms, and between columns.
    pub b: [usize; 2],
    /// Offsets of each product's matrices.
    pub stack: Walk<2>,
    /// Minimum lengths of `a` and `b`.
    pub needed: [usize; 2],
    /// Number of elements of the output.
    pub len: usize,
}

impl Product {
    /// Creates the shape from `rows`, `columns` and `terms`, the strides of `a` (row, term) and of `b` (term, column).
    /// `stack` gives the offsets of the matrices of each product. Returns `None` if a size overflows.
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

    /// Calls `each` with the operands and the output of each product.
    #[inline(always)]
    fn each(&self, a: &[f32], b: &[f32], out: &mut [f32], mut each: impl FnMut(&[f32], &[f32], &mut [f32])) {
        self.each_place(
            out,
            #[inline(always)]
            |a_at, b_at, out| each(a.get(a_at..).unwrap_or_default(), b.get(b_at..).unwrap_or_default(), out),
        );
    }

    /// Calls `each` with the offsets of the matrices and the output of each product.
    #[inline(always)]
    pub(crate) fn each_place(&self, out: &mut [f32], mut each: impl FnMut(usize, usize, &mut [f32])) {
        let size = self.rows.wrapping_mul(self.columns);
        let [a_stride, b_stride] = self.stack.row_strides();
        self.stack.each_row(
            #[inline(always)]
            |position, [mut a_at, mut b_at]| {
                for position in position..position.wrapping_add(self.stack.row()) {
                    let start = position.wrapping_mul(size);
                    let Some(out) = out.get_mut(start..start.wrapping_add(size)) else { return };
                    each(a_at, b_at, out);
                    a_at = a_at.wrapping_add_signed(a_stride);
                    b_at = b_at.wrapping_add_signed(b_stride);
                }
            },
        );
    }
}

/// Computes the products of `a` and `b` and writes `out` `[stack, rows, columns]`.
///
/// # Errors
///
/// Fails if an operand is shorter than the strides need, or if the length of `out` does not match.
#[inline(always)]
pub fn product<L: Lanes>(shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    shape.check(a, b, out)?;
    let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
    shape.each(
        a,
        b,
        out,
        #[inline(always)]
        |a, b, out| {
            let left = Strided { x: a, row_stride: a_row, term_stride: a_term };
            let right = Strided { x: b, row_stride: b_column, term_stride: b_term };
            let (rows, lanes) = ((left, shape.rows, shape.columns), (right, shape.columns, 1));
            // The lanes are on the longer side of the output. Swapping the factors of a product changes no bit. There
            // is a single call, because each is a copy of the code.
            let are_columns = shape.columns >= shape.rows || shape.columns >= L::COUNT;
            let (rows, lanes) = if are_columns { (rows, lanes) } else { (lanes, rows) };
            side_by_side::<L>(shape.terms, (&rows.0, rows.1, rows.2), (&lanes.0, lanes.1, lanes.2), out);
        },
    );
    Ok(())
}

/// Computes one product, with `lanes` across the lanes of a tile. Each operand has its number of rows and the distance
/// of their entries in `out`.
#[inline(always)]
pub(crate) fn side_by_side<L: Lanes>(
    terms: usize,
    (rows, count, row_step): (&impl Rows, usize, usize),
    (lanes, columns, column_step): (&impl Columns, usize, usize),
    out: &mut [f32],
) {
    if terms == 0 {
        out.fill(0.0);
    }
    if count == 1
        && let Some(lanes) = lanes.contiguous()
    {
        return one_row(terms, rows, (lanes, columns, column_step), out);
    }
    tile::product::<L>(
        (0, count, columns, terms),
        rows,
        #[inline(always)]
        |place: PanelRange, panel: &mut Panel<L>| lanes.pack(place, panel),
        #[inline(always)]
        |row, place, sums| {
            if column_step == 1 {
                tile::store(out, row.wrapping_mul(row_step), place, sums);
                return;
            }
            let mut at = row.wrapping_mul(row_step).wrapping_add(place.column.wrapping_mul(column_step));
            for sum in sums.as_ref().iter().take(place.columns) {
                if let Some(out) = out.get_mut(at) {
                    *out = if place.term == 0 { *sum } else { *out + sum };
                }
                at = at.wrapping_add(column_step);
            }
        },
    );
}

/// Multiplies one row by a matrix with contiguous rows. A panel would be used only once, so nothing is packed.
#[inline(always)]
fn one_row(terms: usize, row: &impl Rows, (lanes, columns, column_step): (Strided<'_>, usize, usize), out: &mut [f32]) {
    let (mut buffer, mut other) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    for term in (0..terms).step_by(BLOCK) {
        let count = BLOCK.min(terms - term);
        let factors = row.block(0, term, count, &mut buffer);
        for column in 0..columns {
            let mut sum = 0.0f32;
            for (factor, x) in factors.iter().zip(lanes.block(column, term, count, &mut other)) {
                sum += factor * x;
            }
            if let Some(out) = out.get_mut(column.wrapping_mul(column_step)) {
                *out = if term == 0 { sum } else { *out + sum };
            }
        }
    }
}

/// Computes the outer product of `left` and `right` in row-major order. Passes at most 16 entries of a row at a time to
/// `take`.
///
/// ```
/// use damper_nn::product::outer;
///
/// let mut out = vec![];
/// outer(&[1.0, 2.0], &[3.0, 4.0], |part| out.extend_from_slice(part));
/// assert_eq!(out, [3.0, 4.0, 6.0, 8.0]);
/// ```
#[inline(always)]
pub fn outer(left: &[f32], right: &[f32], mut take: impl FnMut(&[f32])) {
    const PIECE: usize = 16;
    for l in left {
        for right in right.chunks(PIECE) {
            let mut row = [0.0; PIECE];
            for (product, r) in row.iter_mut().zip(right) {
                *product = l * r;
            }
            take(row.get(..right.len()).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::Sum;
    use crate::tile::{Narrow, Wide};
    use damper_testing::Random;
    use std::vec::Vec;

    /// Reference implementation, one sum at a time.
    fn reference(shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]) {
        let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
        shape.each(a, b, out, |a, b, out| {
            for (at, out) in out.iter_mut().enumerate() {
                let (row, column) = (at / shape.columns, at % shape.columns);
                let mut sum = Sum::default();
                (0..shape.terms).for_each(|k| sum.add(a[row * a_row + k * a_term] * b[k * b_term + column * b_column]));
                *out = sum.value();
            }
        });
    }

    // The reference matches sums of products in f64, with all strides. The kernels match the reference bit for bit.
    #[test]
    fn products_match_sums_in_f64() {
        let mut random = Random(13);
        for case in 0..300 {
            let mut draw = |most: usize| random.below(most);
            let (rows, columns, terms, count) =
                (draw(21), draw(37), draw(if case % 10 == 0 { 300 } else { 40 }), 1 + draw(3));
            let (turns_a, turns_b, shares_b) = (draw(2) == 1, draw(2) == 1, draw(2) == 1);
            let values = |random: &mut Random, len: usize| -> Vec<f32> {
                (0..len).map(|_| (random.below(1 << 16) as f32 - 32768.0) * 3.1e-5).collect()
            };
            let a = values(&mut random, count * rows * terms);
            let b = values(&mut random, count * terms * columns);
            let a_strides = if turns_a { [1, rows] } else { [terms, 1] };
            let b_strides = if turns_b { [1, terms] } else { [columns, 1] };
            let b_stack = if shares_b { 0 } else { (terms * columns) as isize };
            let stack = Walk::new(&[count], [&[(rows * terms) as isize], &[b_stack]], [0, 0]).unwrap();
            let shape = Product::new([rows, columns, terms], a_strides, b_strides, stack).unwrap();
            let mut results = [(); 3].map(|()| std::vec![f32::NAN; count * rows * columns]);
            let [defined, narrow, wide] = &mut results;
            reference(&shape, &a, &b, defined);
            product::<Narrow>(&shape, &a, &b, narrow).unwrap();
            product::<Wide>(&shape, &a, &b, wide).unwrap();
            for (at, ((small, narrow), wide)) in defined.iter().zip(narrow).zip(wide).enumerate() {
                let (n, i, j) = (at / (rows * columns), at / columns % rows, at % columns);
                let mut want = 0.0f64;
                for k in 0..terms {
                    let left = a[n * rows * terms + i * a_strides[0] + k * a_strides[1]];
                    let right = b[n * b_stack as usize + k * b_strides[0] + j * b_strides[1]];
                    want += f64::from(left) * f64::from(right);
                }
                assert!((f64::from(*small) - want).abs() <= 1e-5 * want.abs().max(1.0), "{small}, not {want}");
                assert_eq!([small.to_bits(); 2], [narrow.to_bits(), wide.to_bits()], "{shape:?}");
            }
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let stack = Walk::new(&[], [&[], &[]], [0, 0]).unwrap();
        let shape = Product::new([2, 2, 2], [2, 1], [2, 1], stack).unwrap();
        let mut out = [0.0; 4];
        assert_eq!(product::<Narrow>(&shape, &[0.0; 3], &[0.0; 4], &mut out), Err(Error::Length));
        assert_eq!(product::<Wide>(&shape, &[0.0; 4], &[0.0; 3], &mut out), Err(Error::Length));
        assert_eq!(product::<Narrow>(&shape, &[0.0; 4], &[0.0; 4], &mut out[..3]), Err(Error::Length));
        assert!(Product::new([usize::MAX, 2, 2], [2, 1], [2, 1], stack).is_none());
    }
}
