//! Gather from a quantised table.

use super::Quantized;
use crate::index::Along;
use crate::walk::elements;
use crate::{Error, check};

/// Computes [`gather`](crate::index::gather) from a quantised `x`.
///
/// # Errors
///
/// Fails if the length of a slice does not match, or if an index is out of range.
///
/// ```
/// use damper_nn::{index::Along, quantized::{self, Quantized}};
///
/// let rows = Quantized { values: &[1, 2, 3, 4], scales: &[0.5], zeros: &[0], inner: 1 };
/// let mut out = [0.0; 2];
/// quantized::gather(&Along::new(1, 2, 2).unwrap(), &rows, &[1], &mut out)?;
/// assert_eq!(out, [1.5, 2.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn gather(along: &Along, x: &Quantized<'_>, indices: &[i64], out: &mut [f32]) -> Result<(), Error> {
    let Along { outer, axis, inner } = *along;
    let block = axis.wrapping_mul(inner);
    x.check(x.values.len())?;
    check(Some(x.values.len()) == elements(&[outer, axis, inner]))?;
    check(Some(out.len()) == elements(&[outer, indices.len(), inner]))?;
    let mut rows = out.chunks_exact_mut(inner.max(1));
    for outer in 0..outer {
        for (index, row) in indices.iter().zip(&mut rows) {
            let start = outer.wrapping_mul(block).wrapping_add(along.place(*index)?.wrapping_mul(inner));
            x.read(start, 1, row);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Owned, assert_same};
    use super::*;
    use damper_testing::Random;

    // Rows have the bits of rows of floats, for each axis of the channels. Indices out of range are errors.
    #[test]
    fn rows_have_float_bits() {
        let mut random = Random(43);
        for _ in 0..200 {
            let [outer, axis, inner] = [1, 2, 3].map(|_| 1 + random.below(5));
            let table = match random.below(3) {
                0 => Owned::new(&mut random, outer, axis, inner),
                1 => Owned::new(&mut random, outer * axis, inner, 1),
                _ => Owned::new(&mut random, 1, 1, outer * axis * inner),
            };
            let along = Along::new(outer, axis, inner).unwrap();
            let indices: std::vec::Vec<i64> =
                (0..random.below(5)).map(|_| random.below(2 * axis) as i64 - axis as i64).collect();
            let (mut got, mut want) =
                (std::vec![0.0; outer * indices.len() * inner], std::vec![0.0; outer * indices.len() * inner]);
            gather(&along, &table.weight(), &indices, &mut got).unwrap();
            crate::index::gather(&along, &table.floats, &indices, &mut want).unwrap();
            assert_same(&got, &want);
            let outside = [axis as i64];
            let mut one = std::vec![0.0; outer * inner];
            assert_eq!(gather(&along, &table.weight(), &outside, &mut one), Err(Error::Index));
            assert_eq!(gather(&along, &table.weight(), &[0], &mut got[..0]), Err(Error::Length));
        }
    }
}
