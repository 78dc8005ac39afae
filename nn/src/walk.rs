//! Iteration over the positions of one shape, in row-major order, with separate strides for each operand.
//!
//! Strides express broadcast, transpose, slice, flip and expansion: 0 repeats an element and a negative stride goes
//! backwards. [`Walk::new`] merges axes that are contiguous in every operand, which makes the innermost row as long as
//! possible.

/// Maximum number of axes of a walk, after merging.
pub const MAX_RANK: usize = 6;

/// Strides of `N` operands over one shape. [`Walk::new`] checks it. Its fields are public for constants of compiled
/// networks.
///
/// ```
/// use damper_nn::Walk;
///
/// // The transpose of a matrix of two rows and three columns, and a row that is repeated.
/// let walk = Walk::new(&[3, 2], [&[1, 3], &[0, 1]], [0, 0]).unwrap();
/// assert_eq!((walk.len(), walk.is_empty(), walk.needed(0), walk.needed(1)), (6, false, 6, 2));
/// let mut visited = vec![];
/// walk.each_row(|_, starts| visited.push(starts));
/// assert_eq!((walk.row(), walk.row_strides(), visited), (2, [3, 1], vec![[0, 0], [1, 0], [2, 0]]));
/// // Broadcast as ONNX does.
/// assert_eq!(Walk::broadcast(&[3, 2], [&[3, 2], &[2]]).unwrap().needed(1), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Walk<const N: usize> {
    /// Extents, with the innermost axis last. Unused leading axes have extent 1.
    pub extents: [usize; MAX_RANK],
    /// Strides of each operand, one per axis.
    pub strides: [[isize; MAX_RANK]; N],
    /// Index of each operand's first element.
    pub starts: [usize; N],
    /// Minimum length of each operand.
    pub needed: [usize; N],
    /// Number of positions.
    pub len: usize,
}

impl<const N: usize> Walk<N> {
    /// Creates a walk over `shape`. Each operand has one stride per axis and the index of its first element.
    ///
    /// Returns `None` if the number of strides differs from the number of axes, an operand would be read before index
    /// 0, more than [`MAX_RANK`] axes remain, or a size overflows.
    #[must_use]
    pub fn new(shape: &[usize], strides: [&[isize]; N], starts: [usize; N]) -> Option<Self> {
        if strides.iter().any(|strides| strides.len() != shape.len()) {
            return None;
        }
        let len = elements(shape)?;
        let mut walk = Self { extents: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], starts, needed: [0; N], len };
        if len == 0 {
            *walk.extents.last_mut()? = 0;
            return Some(walk);
        }
        // Axis under construction, from the last to the first.
        let mut axis = MAX_RANK;
        for (at, extent) in shape.iter().copied().enumerate().rev() {
            if extent == 1 {
                continue;
            }
            let mut here = [0isize; N];
            for (here, strides) in here.iter_mut().zip(&strides) {
                *here = *strides.get(at)?;
            }
            let joins = |inner: usize| {
                let extent = walk.extents.get(inner).copied().unwrap_or(0) as isize;
                let mut pairs = walk.strides.iter().zip(&here);
                pairs.all(|(strides, here)| strides.get(inner).is_some_and(|s| s.checked_mul(extent) == Some(*here)))
            };
            if axis < MAX_RANK && joins(axis) {
                *walk.extents.get_mut(axis)? *= extent;
                continue;
            }
            axis = axis.checked_sub(1)?;
            *walk.extents.get_mut(axis)? = extent;
            for (strides, here) in walk.strides.iter_mut().zip(here) {
                *strides.get_mut(axis)? = here;
            }
        }
        for ((needed, strides), start) in walk.needed.iter_mut().zip(&walk.strides).zip(starts) {
            let (mut first, mut last) = (isize::try_from(start).ok()?, isize::try_from(start).ok()?);
            for (extent, stride) in walk.extents.iter().zip(strides) {
                let way = isize::try_from(*extent - 1).ok()?.checked_mul(*stride)?;
                if way < 0 {
                    first = first.checked_add(way)?;
                } else {
                    last = last.checked_add(way)?;
                }
            }
            if first < 0 {
                return None;
            }
            *needed = last.unsigned_abs().checked_add(1)?;
        }
        Some(walk)
    }

    /// Creates a walk over `shape`, with operands of `shapes` broadcast as in ONNX: aligned at the last axis, and an
    /// extent of 1 repeats. Returns `None` if a shape does not broadcast or [`Walk::new`] fails.
    #[must_use]
    pub fn broadcast(shape: &[usize], shapes: [&[usize]; N]) -> Option<Self> {
        const MOST: usize = 16;
        let mut all = [[0isize; MOST]; N];
        for (strides, from) in all.iter_mut().zip(shapes) {
            let lead = shape.len().checked_sub(from.len())?;
            let mut stride = 1usize;
            for (axis, extent) in from.iter().copied().enumerate().rev() {
                let place = axis.checked_add(lead)?;
                match extent {
                    1 => {}
                    _ if Some(&extent) == shape.get(place) => {
                        *strides.get_mut(place)? = isize::try_from(stride).ok()?
                    }
                    _ => return None,
                }
                stride = stride.checked_mul(extent)?;
            }
        }
        let mut strides: [&[isize]; N] = [&[]; N];
        for (strides, all) in strides.iter_mut().zip(&all) {
            *strides = all.get(..shape.len())?;
        }
        Self::new(shape, strides, [0; N])
    }

    /// Returns the number of positions.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the walk is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the minimum length of operand `operand`.
    #[inline(always)]
    #[must_use]
    pub fn needed(&self, operand: usize) -> usize {
        self.needed.get(operand).copied().unwrap_or(usize::MAX)
    }

    /// Returns the number of positions in a row, which is the extent of the innermost axis.
    #[inline(always)]
    #[must_use]
    pub fn row(&self) -> usize {
        let [.., row] = self.extents;
        row
    }

    /// Returns each operand's stride within a row.
    #[inline(always)]
    #[must_use]
    pub fn row_strides(&self) -> [isize; N] {
        self.strides.map(|[.., stride]| stride)
    }

    /// Calls `row` for each row, with its first position and the index of its first element in each operand.
    #[inline(always)]
    pub fn each_row(&self, mut row: impl FnMut(usize, [usize; N])) {
        const OUTER: usize = MAX_RANK - 1;
        if self.len == 0 {
            return;
        }
        let mut index = [0usize; OUTER];
        let (mut at, mut position) = (self.starts, 0usize);
        'rows: loop {
            row(position, at);
            position = position.wrapping_add(self.row());
            for axis in (0..OUTER).rev() {
                index[axis] += 1;
                let done = index[axis] >= self.extents[axis];
                for (at, strides) in at.iter_mut().zip(&self.strides) {
                    let extent = self.extents[axis] as isize;
                    let stride = strides[axis];
                    // At the end of the axis, step back to its first element.
                    let step = if done { stride.wrapping_mul(1isize.wrapping_sub(extent)) } else { stride };
                    *at = at.wrapping_add_signed(step);
                }
                if !done {
                    continue 'rows;
                }
                index[axis] = 0;
            }
            return;
        }
    }
}

/// Returns the number of elements of a shape. `None` if it overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |len, extent| len.checked_mul(*extent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn positions<const N: usize>(walk: &Walk<N>) -> Vec<[usize; N]> {
        let mut all = Vec::new();
        walk.each_row(|position, at| {
            assert_eq!(position, all.len());
            for column in 0..walk.row() as isize {
                let strides = walk.row_strides();
                all.push(core::array::from_fn(|n| at[n].wrapping_add_signed(column * strides[n])));
            }
        });
        all
    }

    // Each position reads the element that index arithmetic gives, for random shapes and strides.
    #[test]
    fn walk_matches_index_arithmetic() {
        let mut random = damper_testing::Random(11);
        for _ in 0..500 {
            let rank = random.below(6);
            let shape: Vec<usize> = (0..rank).map(|_| random.below(4) + usize::from(random.below(9) > 0)).collect();
            let mut draw = || (0..rank).map(|_| random.below(7) as isize - 3).collect::<Vec<isize>>();
            let strides = [draw(), draw()];
            let walk = Walk::new(&shape, [&strides[0], &strides[1]], [100, 200]).unwrap();
            let mut want = Vec::new();
            for flat in 0..shape.iter().product::<usize>() {
                let (mut rest, mut at) = (flat, [100isize, 200]);
                for axis in (0..rank).rev() {
                    let index = (rest % shape[axis]) as isize;
                    rest /= shape[axis];
                    at[0] += index * strides[0][axis];
                    at[1] += index * strides[1][axis];
                }
                want.push(at.map(|at| at as usize));
            }
            assert_eq!(positions(&walk), want, "{shape:?} {strides:?}");
            for operand in 0..2 {
                assert_eq!(walk.needed(operand), want.iter().map(|at| at[operand] + 1).max().unwrap_or(0));
            }
        }
    }

    // Contiguous operands form one row. A broadcast operand repeats.
    #[test]
    fn broadcast_repeats_and_joins() {
        let walk = Walk::broadcast(&[2, 3, 4], [&[2, 3, 4], &[2, 3, 4]]).unwrap();
        assert_eq!((walk.row(), walk.len()), (24, 24));
        let walk = Walk::broadcast(&[2, 3], [&[3], &[2, 1]]).unwrap();
        assert_eq!(positions(&walk), [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]);
        assert!(Walk::broadcast(&[2, 3], [&[2]]).is_none());
    }

    // `Walk::new` rejects walks that leave their operand.
    #[test]
    fn walk_outside_is_refused() {
        assert!(Walk::new(&[3], [&[-1]], [1]).is_none());
        assert!(Walk::new(&[3], [&[]], [0]).is_none());
        assert!(Walk::new(&[usize::MAX, 2], [&[1, 1]], [0]).is_none());
        assert!(Walk::new(&[2; 8], [&[1, 9, 80, 700, 6000, 50000, 400000, 3000000]], [0]).is_none());
        assert_eq!(Walk::new(&[0, 5], [&[-9, 1]], [0]).unwrap().needed(0), 0);
    }
}
