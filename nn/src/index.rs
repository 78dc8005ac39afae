//! Gather and scatter along one axis: embeddings and their gradients.

use crate::walk::elements;
use crate::{Error, check};

/// Shape `[outer, axis, inner]` of a tensor that is indexed along its middle axis. [`Along::new`] checks it.
///
/// ```
/// use damper_nn::index::Along;
///
/// // The middle axis of a tensor [2, 5, 3].
/// let along = Along::new(2, 5, 3).unwrap();
/// assert_eq!((along.outer, along.axis, along.inner), (2, 5, 3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Along {
    /// Number of elements in the axes before it.
    pub outer: usize,
    /// Extent of the axis.
    pub axis: usize,
    /// Number of elements in the axes after it.
    pub inner: usize,
}

impl Along {
    /// Creates the shape. `None` if the size overflows.
    #[must_use]
    pub fn new(outer: usize, axis: usize, inner: usize) -> Option<Self> {
        elements(&[outer, axis, inner])?;
        Some(Self { outer, axis, inner })
    }

    /// Returns the position of an index on the axis. A negative index counts from the end.
    #[inline(always)]
    pub(crate) fn place(&self, index: i64) -> Result<usize, Error> {
        let index = if index < 0 { index.wrapping_add(self.axis as i64) } else { index };
        usize::try_from(index).ok().filter(|index| *index < self.axis).ok_or(Error::Index)
    }
}

/// Implements `Gather`: reads the rows of `x` `[outer, axis, inner]` at `indices` `[n]` and writes `out`
/// `[outer, n, inner]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match, or if an index is out of range.
///
/// ```
/// use damper_nn::index::{Along, gather};
///
/// // The last and the first row of an embedding.
/// let (rows, mut out) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0; 4]);
/// gather(&Along::new(1, 3, 2).unwrap(), &rows, &[-1, 0], &mut out)?;
/// assert_eq!(out, [5.0, 6.0, 1.0, 2.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn gather<T: Copy>(along: &Along, x: &[T], indices: &[i64], out: &mut [T]) -> Result<(), Error> {
    let Along { outer, axis, inner } = *along;
    check(x.len() == outer * axis * inner)?;
    check(Some(out.len()) == elements(&[outer, indices.len(), inner]))?;
    let mut rows = out.chunks_exact_mut(inner.max(1));
    for block in x.chunks_exact((axis * inner).max(1)) {
        for (index, row) in indices.iter().zip(&mut rows) {
            let start = along.place(*index)? * inner;
            for (out, x) in row.iter_mut().zip(block.get(start..).unwrap_or_default()) {
                *out = *x;
            }
        }
    }
    Ok(())
}

/// Implements `GatherElements`: `out[o, k, i] = x[o, indices[o, k, i], i]`, with `indices` and `out`
/// `[outer, n, inner]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match, or if an index is out of range.
///
/// ```
/// use damper_nn::index::{Along, gather_elements};
///
/// // The logit of each row's label.
/// let (logits, mut out) = ([0.1, 0.7, 0.2, 0.5, 0.3, 0.9], [0.0; 2]);
/// gather_elements(&Along::new(2, 3, 1).unwrap(), &logits, &[1, 2], &mut out)?;
/// assert_eq!(out, [0.7, 0.9]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn gather_elements<T: Copy>(along: &Along, x: &[T], indices: &[i64], out: &mut [T]) -> Result<(), Error> {
    let Along { outer, axis, inner } = *along;
    check(x.len() == outer * axis * inner && indices.len() == out.len())?;
    let each = indices.len().checked_div(outer).unwrap_or(0);
    check(each * outer == indices.len() && each.checked_rem(inner).unwrap_or(0) == 0)?;
    let blocks = x.chunks_exact((axis * inner).max(1));
    for ((block, indices), out) in blocks.zip(indices.chunks(each.max(1))).zip(out.chunks_mut(each.max(1))) {
        for (indices, out) in indices.chunks(inner.max(1)).zip(out.chunks_mut(inner.max(1))) {
            for (at, (index, out)) in indices.iter().zip(out).enumerate() {
                let x = block.get(along.place(*index)? * inner + at).ok_or(Error::Length)?;
                *out = *x;
            }
        }
    }
    Ok(())
}

/// Implements `ScatterElements` with `reduction` add: `out[o, indices[o, k, i], i] += updates[o, k, i]`.
///
/// `indices` and `updates` are `[outer, n, inner]`, `out` is `[outer, axis, inner]`. Updates are added one after
/// another in their order, without blocks.
///
/// # Errors
///
/// Fails if the length of a slice does not match, or if an index is out of range.
///
/// ```
/// use damper_nn::index::{Along, scatter_add};
///
/// // The gradient of rows of an embedding, of which one was read twice.
/// let mut out = [0.0; 3];
/// scatter_add(&Along::new(1, 3, 1).unwrap(), &[2, 0, 2], &[1.0, 10.0, 100.0], &mut out)?;
/// assert_eq!(out, [10.0, 0.0, 101.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn scatter_add(along: &Along, indices: &[i64], updates: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let Along { outer, axis, inner } = *along;
    check(out.len() == outer * axis * inner && indices.len() == updates.len())?;
    let each = indices.len().checked_div(outer).unwrap_or(0);
    check(each * outer == indices.len() && each.checked_rem(inner).unwrap_or(0) == 0)?;
    let blocks = out.chunks_exact_mut((axis * inner).max(1));
    for ((block, indices), updates) in blocks.zip(indices.chunks(each.max(1))).zip(updates.chunks(each.max(1))) {
        for (indices, updates) in indices.chunks(inner.max(1)).zip(updates.chunks(inner.max(1))) {
            for (at, (index, update)) in indices.iter().zip(updates).enumerate() {
                let out = block.get_mut(along.place(*index)? * inner + at).ok_or(Error::Length)?;
                *out += *update;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Gathered rows, gathered elements and scattered sums of a `[2, 3, 2]` tensor match hand-computed results.
    #[test]
    fn indices_match_hand_results() {
        let along = Along::new(2, 3, 2).unwrap();
        let x: std::vec::Vec<f32> = (0..12).map(|x| x as f32).collect();
        let mut out = [0.0; 8];
        gather(&along, &x, &[2, -3], &mut out).unwrap();
        assert_eq!(out, [4.0, 5.0, 0.0, 1.0, 10.0, 11.0, 6.0, 7.0]);
        let mut out = [0.0; 4];
        gather_elements(&along, &x, &[2, 0, 1, 1], &mut out).unwrap();
        assert_eq!(out, [4.0, 1.0, 8.0, 9.0]);
        let mut sums = [0.0; 12];
        scatter_add(&along, &[2, 0, 2, 1, 1, 1, -1, 0], &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], &mut sums)
            .unwrap();
        assert_eq!(sums, [0.0, 2.0, 0.0, 8.0, 5.0, 0.0, 0.0, 128.0, 16.0, 32.0, 64.0, 0.0]);
    }

    #[test]
    fn indices_outside_are_refused() {
        let along = Along::new(1, 3, 1).unwrap();
        let mut out = [0.0];
        for index in [3, -4, i64::MAX, i64::MIN] {
            assert_eq!(gather(&along, &[1.0, 2.0, 3.0], &[index], &mut out), Err(Error::Index));
            assert_eq!(gather_elements(&along, &[1.0, 2.0, 3.0], &[index], &mut out), Err(Error::Index));
            assert_eq!(scatter_add(&along, &[index], &[1.0], &mut [0.0; 3]), Err(Error::Index));
        }
        assert_eq!(gather(&along, &[1.0], &[0], &mut out), Err(Error::Length));
        assert!(Along::new(usize::MAX, 2, 2).is_none());
        let empty = Along::new(0, 3, 2).unwrap();
        assert_eq!(gather::<f32>(&empty, &[], &[1], &mut []), Ok(()));
    }
}
