//! Matrix products with one quantised operand.

use super::{Quantized, QuantizedRows};
use crate::product::{Product, side_by_side};
use crate::tile::{Lanes, Strided};
use crate::{Error, check};

/// Computes [`product`](crate::product::product) with a quantised `a`, with the same bits.
///
/// # Errors
///
/// Fails if an operand is shorter than the strides need, or if the length of `out` does not match.
///
/// ```
/// use damper_nn::{Narrow, Walk, product::Product, quantized::{Quantized, product_left, product_right}};
///
/// let stack = Walk::broadcast(&[1], [&[1], &[1]]).unwrap();
/// let weight = Quantized { values: &[1, -1], scales: &[0.5], zeros: &[0], inner: 1 };
/// let mut out = [0.0];
/// // A row by a column, with either quantised.
/// let shape = Product::new([1, 1, 2], [2, 1], [1, 1], stack).unwrap();
/// product_left::<Narrow>(&shape, &weight, &[6.0, 2.0], &mut out)?;
/// assert_eq!(out, [2.0]);
/// product_right::<Narrow>(&shape, &[2.0, 6.0], &weight, &mut out)?;
/// assert_eq!(out, [-2.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn product_left<L: Lanes>(shape: &Product, a: &Quantized<'_>, b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let [a_needed, b_needed] = shape.needed;
    a.check(a_needed)?;
    check(b.len() >= b_needed && out.len() == shape.len)?;
    let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
    shape.each_place(
        out,
        #[inline(always)]
        |a_at, b_at, out| {
            let left = QuantizedRows { weight: a, start: a_at, row_stride: a_row, term_stride: a_term };
            let x = b.get(b_at..).unwrap_or_default();
            let x = Strided { x, row_stride: b_column, term_stride: b_term };
            side_by_side::<L>(shape.terms, (&x, shape.columns, 1), (&left, shape.rows, shape.columns), out);
        },
    );
    Ok(())
}

/// Computes [`product`](crate::product::product) with a quantised `b`, with the same bits.
///
/// # Errors
///
/// As for [`product_left`].
#[inline(always)]
pub fn product_right<L: Lanes>(shape: &Product, a: &[f32], b: &Quantized<'_>, out: &mut [f32]) -> Result<(), Error> {
    let [a_needed, b_needed] = shape.needed;
    b.check(b_needed)?;
    check(a.len() >= a_needed && out.len() == shape.len)?;
    let ([a_row, a_term], [b_term, b_column]) = (shape.a, shape.b);
    shape.each_place(
        out,
        #[inline(always)]
        |a_at, b_at, out| {
            let right = QuantizedRows { weight: b, start: b_at, row_stride: b_column, term_stride: b_term };
            let x = a.get(a_at..).unwrap_or_default();
            let x = Strided { x, row_stride: a_row, term_stride: a_term };
            side_by_side::<L>(shape.terms, (&x, shape.rows, shape.columns), (&right, shape.columns, 1), out);
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Owned, assert_same, floats};
    use super::*;
    use crate::Walk;
    use crate::product::product;
    use crate::tile::Narrow;
    use damper_testing::Random;

    // With either operand quantised and all strides, the product has the bits of the product of floats.
    #[test]
    fn quantized_products_have_float_bits() {
        let mut random = Random(41);
        for case in 0..300 {
            let (rows, columns) = (random.below(9), random.below(9));
            let (count, terms) = (1 + random.below(3), random.below(if case % 5 == 0 { 200 } else { 20 }));
            let (turns_a, turns_b, shares_b) = (random.below(2) == 1, random.below(2) == 1, random.below(2) == 1);
            let a_strides = if turns_a { [1, rows] } else { [terms, 1] };
            let b_strides = if turns_b { [1, terms] } else { [columns, 1] };
            let b_stack = if shares_b { 0 } else { (terms * columns) as isize };
            let stack = Walk::new(&[count], [&[(rows * terms) as isize], &[b_stack]], [0, 0]).unwrap();
            let shape = Product::new([rows, columns, terms], a_strides, b_strides, stack).unwrap();
            // Channels along any axis: one per row, one per entry of a row, or one for all.
            let mut weight = |rows: usize, columns: usize| {
                let (rows, columns) = (rows.max(1), columns.max(1));
                match random.below(3) {
                    0 => Owned::new(&mut random, count, rows, columns),
                    1 => Owned::new(&mut random, count * rows, columns, 1),
                    _ => Owned::new(&mut random, 1, 1, count * rows * columns),
                }
            };
            let (a, b) = (weight(rows, terms), weight(terms, columns));
            let x = floats(&mut random, count * (rows * terms).max(terms * columns));
            let mut results = [(); 4].map(|()| std::vec![f32::NAN; shape.len]);
            let [left, want_left, right, want_right] = &mut results;
            product_left::<Narrow>(&shape, &a.weight(), &x, left).unwrap();
            product::<Narrow>(&shape, &a.floats, &x, want_left).unwrap();
            product_right::<Narrow>(&shape, &x, &b.weight(), right).unwrap();
            product::<Narrow>(&shape, &x, &b.floats, want_right).unwrap();
            assert_same(left, want_left);
            assert_same(right, want_right);
        }
    }

    #[test]
    fn short_operands_are_errors() {
        let stack = Walk::new(&[], [&[], &[]], [0, 0]).unwrap();
        let shape = Product::new([2, 2, 3], [3, 1], [2, 1], stack).unwrap();
        let weight = Quantized { values: &[1; 5], scales: &[1.0], zeros: &[0], inner: 5 };
        assert_eq!(product_left::<Narrow>(&shape, &weight, &[1.0; 6], &mut [0.0; 4]), Err(Error::Length));
        let weight = Quantized { values: &[1; 6], scales: &[1.0], zeros: &[0], inner: 6 };
        assert_eq!(product_right::<Narrow>(&shape, &[1.0; 5], &weight, &mut [0.0; 4]), Err(Error::Length));
        assert_eq!(product_right::<Narrow>(&shape, &[1.0; 6], &weight, &mut [0.0; 5]), Err(Error::Length));
        product_right::<Narrow>(&shape, &[1.0; 6], &weight, &mut [0.0; 4]).unwrap();
    }
}
