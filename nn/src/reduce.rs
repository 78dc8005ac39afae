//! Sums, means, products, maxima and minima over axes of a tensor.

use crate::elementwise::{larger, smaller};
use crate::sum::{BLOCK, Sum};
use crate::{Error, Walk, check};

/// Operation of a reduction.
///
/// ```
/// use damper_nn::reduce::{Fold, Reduction, reduce};
///
/// // Over the columns of two rows.
/// let rows = Reduction::new(&[2, 2], |axis| axis == 1).unwrap();
/// let mut out = [0.0; 2];
/// for (fold, expected) in [(Fold::Sum, [3.0, 7.0]), (Fold::Mean, [1.5, 3.5]), (Fold::Max, [2.0, 4.0])] {
///     reduce(fold, &rows, &[1.0, 2.0, 3.0, 4.0], &mut out)?;
///     assert_eq!(out, expected);
/// }
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// Maximum. NaN if a value is NaN, −∞ of no values.
    Max,
    /// [`Fold::Sum`] divided by the count.
    Mean,
    /// Minimum. NaN if a value is NaN, +∞ of no values.
    Min,
    /// Product, multiplied one after another, starting from 1.
    Product,
    /// Sum in the [order of sums](crate::sum).
    Sum,
}

/// Axes of a reduction. [`Reduction::new`] checks them.
///
/// ```
/// use damper_nn::reduce::Reduction;
///
/// let rows = Reduction::new(&[2, 5], |axis| axis == 1).unwrap();
/// assert_eq!((rows.len(), rows.is_empty(), rows.reduced.len()), (2, false, 5));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Reduction {
    /// Positions of the output.
    pub kept: Walk<1>,
    /// Positions that are reduced to one value, for each position of the output.
    pub reduced: Walk<1>,
}

/// Number of positions that are summed in parallel.
const LANES: usize = 16;

impl Reduction {
    /// Creates the reduction of `x` of `shape`, over the axes for which `reduces` returns true. The terms of a sum are
    /// in their order in `x`. Returns `None` if a size overflows or there are too many axes.
    #[must_use]
    pub fn new(shape: &[usize], reduces: impl Fn(usize) -> bool) -> Option<Self> {
        const MOST: usize = 16;
        let mut kept = ([0usize; MOST], [0isize; MOST], 0usize);
        let mut reduced = kept;
        for axis in 0..shape.len() {
            let extent = *shape.get(axis)?;
            let stride = isize::try_from(crate::walk::elements(shape.get(axis + 1..)?)?).ok()?;
            let (extents, strides, rank) = if reduces(axis) { &mut reduced } else { &mut kept };
            *extents.get_mut(*rank)? = extent;
            *strides.get_mut(*rank)? = stride;
            *rank += 1;
        }
        let walk = |(extents, strides, rank): &([usize; MOST], [isize; MOST], usize)| {
            Walk::new(extents.get(..*rank)?, [strides.get(..*rank)?], [0])
        };
        Some(Self { kept: walk(&kept)?, reduced: walk(&reduced)? })
    }

    /// Returns the number of entries of the output.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if the output is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Reduces `x` and writes `out`.
///
/// # Errors
///
/// Fails if a slice is shorter than the reduction needs, or if the length of `out` does not match.
#[inline(always)]
pub fn reduce(fold: Fold, reduction: &Reduction, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let Reduction { kept, reduced } = reduction;
    check(out.len() == kept.len())?;
    // The index of the last element of `x` is the sum of the last indices of both walks.
    check(kept.is_empty() || reduced.is_empty() || x.len() >= kept.needed(0) + reduced.needed(0) - 1)?;
    let count = reduced.len() as f32;
    match fold {
        Fold::Sum => sums(reduction, x, out, |sum| sum),
        Fold::Mean => sums(reduction, x, out, |sum| sum / count),
        Fold::Max => folds(reduction, x, out, f32::NEG_INFINITY, |whole, x| larger(x, whole)),
        Fold::Min => folds(reduction, x, out, f32::INFINITY, |whole, x| smaller(x, whole)),
        Fold::Product => folds(reduction, x, out, 1.0, |whole, x| whole * x),
    }
    Ok(())
}

#[inline(always)]
fn sums(Reduction { kept, reduced }: &Reduction, x: &[f32], out: &mut [f32], finish: impl Fn(f32) -> f32) {
    let row = kept.row();
    let [stride] = kept.row_strides();
    kept.each_row(
        #[inline(always)]
        |position, [start]| {
            let Some(out) = out.get_mut(position..position.wrapping_add(row)) else { return };
            // Adjacent positions are summed in lanes. Each sum keeps its own order.
            let whole = if stride == 1 { row - row % LANES } else { 0 };
            let Some((lanes, rest)) = out.split_at_mut_checked(whole) else { return };
            let mut start = start;
            for lanes in lanes.chunks_exact_mut(LANES) {
                for (out, sum) in lanes.iter_mut().zip(side_by_side(reduced, x, start)) {
                    *out = finish(sum);
                }
                start = start.wrapping_add(LANES);
            }
            for out in rest {
                let mut sum = Sum::default();
                terms(reduced, x, start, |x| sum.add(x));
                *out = finish(sum.value());
                start = start.wrapping_add_signed(stride);
            }
        },
    );
}

/// Returns the sums of [`LANES`] adjacent positions, starting at `start`.
#[inline(always)]
fn side_by_side(reduced: &Walk<1>, x: &[f32], start: usize) -> [f32; LANES] {
    let (mut whole, mut block, mut count) = ([0.0f32; LANES], [0.0f32; LANES], 0);
    let [stride] = reduced.row_strides();
    reduced.each_row(
        #[inline(always)]
        |_, [at]| {
            let mut at = start.wrapping_add(at);
            for _ in 0..reduced.row() {
                let Some(terms) = x.get(at..).and_then(|x| x.first_chunk::<LANES>()) else { return };
                for (block, term) in block.iter_mut().zip(terms) {
                    *block += term;
                }
                count += 1;
                if count == BLOCK {
                    for (whole, block) in whole.iter_mut().zip(&block) {
                        *whole += block;
                    }
                    (block, count) = ([0.0; LANES], 0);
                }
                at = at.wrapping_add_signed(stride);
            }
        },
    );
    for (whole, block) in whole.iter_mut().zip(&block) {
        *whole += block;
    }
    whole
}

#[inline(always)]
fn folds(Reduction { kept, reduced }: &Reduction, x: &[f32], out: &mut [f32], from: f32, f: impl Fn(f32, f32) -> f32) {
    let row = kept.row();
    let [stride] = kept.row_strides();
    kept.each_row(
        #[inline(always)]
        |position, [mut start]| {
            let Some(out) = out.get_mut(position..position.wrapping_add(row)) else { return };
            for out in out {
                let mut whole = from;
                terms(reduced, x, start, |x| whole = f(whole, x));
                *out = whole;
                start = start.wrapping_add_signed(stride);
            }
        },
    );
}

/// Passes the terms of the position at `start` to `term`, in order.
#[inline(always)]
fn terms(reduced: &Walk<1>, x: &[f32], start: usize, mut term: impl FnMut(f32)) {
    let [stride] = reduced.row_strides();
    reduced.each_row(
        #[inline(always)]
        |_, [at]| {
            let mut at = start.wrapping_add(at);
            for _ in 0..reduced.row() {
                if let Some(x) = x.get(at) {
                    term(*x);
                }
                at = at.wrapping_add_signed(stride);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::Random;
    use std::vec::Vec;

    // Every set of axes of random shapes matches one sum at a time, in the order of the elements.
    #[test]
    fn reductions_match_plain_loops() {
        let mut random = Random(17);
        for case in 0..300usize {
            let rank = 1 + random.below(4);
            let long = if case % 7 == 0 { 130 } else { 6 };
            let shape: Vec<usize> = (0..rank).map(|axis| random.below(if axis == 0 { long } else { 20 }) + 1).collect();
            let mask = random.below(1 << rank);
            let reduces = |axis: usize| mask >> axis & 1 == 1;
            let len = shape.iter().product::<usize>();
            let x: Vec<f32> = (0..len).map(|_| random.below(1 << 16) as f32 * 1e-3 - 30.0).collect();
            let kept: Vec<usize> = (0..rank).filter(|axis| !reduces(*axis)).collect();
            let mut terms: Vec<Vec<f32>> = std::vec![Vec::new(); kept.iter().fold(1, |len, axis| len * shape[*axis])];
            for (flat, x) in x.iter().enumerate() {
                let index = |axis: usize| flat / shape[axis + 1..].iter().product::<usize>() % shape[axis];
                terms[kept.iter().fold(0, |at, axis| at * shape[*axis] + index(*axis))].push(*x);
            }
            let reduction = Reduction::new(&shape, reduces).unwrap();
            assert_eq!(reduction.len(), terms.len());
            let of = |fold: Fold| {
                let mut out = std::vec![f32::NAN; terms.len()];
                reduce(fold, &reduction, &x, &mut out).unwrap();
                out
            };
            let want = |f: &dyn Fn(&[f32]) -> f32| terms.iter().map(|terms| f(terms)).collect::<Vec<f32>>();
            let sum = |terms: &[f32]| {
                let mut sum = Sum::default();
                terms.iter().for_each(|term| sum.add(*term));
                sum.value()
            };
            assert_eq!(of(Fold::Sum), want(&sum), "{shape:?} {mask:b}");
            assert_eq!(of(Fold::Mean), want(&|terms| sum(terms) / terms.len() as f32));
            assert_eq!(of(Fold::Max), want(&|terms| terms.iter().copied().fold(f32::NEG_INFINITY, f32::max)));
            assert_eq!(of(Fold::Min), want(&|terms| terms.iter().copied().fold(f32::INFINITY, f32::min)));
            assert_eq!(of(Fold::Product), want(&|terms| terms.iter().fold(1.0, |whole, x| whole * x)));
        }
    }

    #[test]
    fn nothing_and_nan_are_reduced() {
        let reduction = Reduction::new(&[2, 0], |axis| axis == 1).unwrap();
        let mut out = [7.0; 2];
        reduce(Fold::Sum, &reduction, &[], &mut out).unwrap();
        assert_eq!(out, [0.0; 2]);
        let reduction = Reduction::new(&[2], |_| true).unwrap();
        let mut out = [0.0];
        reduce(Fold::Max, &reduction, &[f32::NAN, 1.0], &mut out).unwrap();
        assert!(out[0].is_nan());
        assert_eq!(reduce(Fold::Sum, &reduction, &[1.0], &mut out), Err(Error::Length));
    }
}
