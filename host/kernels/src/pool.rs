//! Pools of adjacent or overlapping 2×2 windows.

use crate::convolution::Windows;
use pulp::{Arch, Scalar, Simd, WithSimd};
use std::hint::black_box;

/// Value of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pool {
    /// Maximum.
    Max,
    /// Mean.
    Average,
}

impl Pool {
    /// Returns the windows over one plane of `input` lines and columns with a stride of 1 or 2, and `None` if they do
    /// not fit.
    pub fn windows(input: [usize; 2], stride: usize) -> Option<Windows> {
        if !(1..=2).contains(&stride) {
            return None;
        }
        Windows::new([1, 1], input, [[0; 2]; 2], [[2, 2], [stride; 2], [1, 1]])
    }

    /// Pools each plane of `x` `[N, C, *input]` into `y` `[N, C, *output]`, over [`Pool::windows`].
    pub fn run(self, windows: Windows, x: &[f32], y: &mut [f32]) {
        Arch::new().dispatch(Run { pool: self, windows, x, y });
    }
}

/// Pooling call.
struct Run<'a> {
    pool: Pool,
    windows: Windows,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Run<'_> {
    /// Adjacent windows. Each applies `fold` to its columns, then to both results, and then `end`.
    #[inline(always)]
    fn side_by_side(self, fold: impl Fn(f32, f32) -> f32 + Copy, end: impl Fn(f32) -> f32 + Copy) {
        match self.windows.output[1] {
            ..4 => self.by_pieces::<1>(fold, end),
            4..8 => self.by_pieces::<4>(fold, end),
            8..16 => self.by_pieces::<8>(fold, end),
            _ => self.by_pieces::<16>(fold, end),
        }
    }

    /// Computes `N` windows of a line at a time. A line has at least `N`.
    #[inline(always)]
    fn by_pieces<const N: usize>(self, fold: impl Fn(f32, f32) -> f32 + Copy, end: impl Fn(f32) -> f32 + Copy) {
        let Windows { input, output: [lines, columns], .. } = self.windows;
        // If each plane uses all its lines, the lines of all planes are contiguous.
        let planes = if input[0] == 2 * lines { (self.y.len() / columns / lines).max(1) } else { 1 };
        let [of_x, of_y] = [input[0] * input[1], lines * columns].map(|len| len * planes);
        for (x, y) in self.x.chunks_exact(of_x).zip(self.y.chunks_exact_mut(of_y)) {
            let pairs = x.chunks_exact(2 * input[1]);
            if columns == N {
                // With a count known to the compiler, it would gather across lines.
                for (x, y) in pairs.zip(y.chunks_exact_mut(black_box(columns))) {
                    *y.first_chunk_mut().expect("a line") = of_pairs::<N>(x, &x[input[1]..], fold, end);
                }
                continue;
            }
            for (x, y) in pairs.zip(y.chunks_exact_mut(columns)) {
                for column in (0..columns).step_by(N) {
                    // The last block ends with the line.
                    let column = column.min(columns - N);
                    let made = of_pairs::<N>(&x[2 * column..], &x[input[1] + 2 * column..], fold, end);
                    *y[column..].first_chunk_mut().expect("a piece") = made;
                }
            }
        }
    }

    /// Overlapping windows, of the planes from `first` on.
    #[inline(always)]
    fn overlapping<S: Simd, const MAX: bool>(&mut self, simd: S, first: usize) {
        let Windows { input, output: [lines, columns], .. } = self.windows;
        let [of_x, of_y] = [input[0] * input[1], lines * columns];
        // In short lines, the last register writes past the line, and the next lines and planes overwrite that. In
        // other lines it ends with the line.
        let last = columns.saturating_sub(S::F32_LANES);
        let x_reach = lines * input[1] + S::F32_LANES + 1;
        let y_reach = (lines - 1) * columns + S::F32_LANES;
        let with_room =
            |len: usize, of: usize, reach: usize| len.checked_sub(last + reach).map_or(0, |left| left / of + 1);
        let until = with_room(self.x.len(), of_x, x_reach).min(with_room(self.y.len(), of_y, y_reach));
        for plane in first..until {
            for column in (0..columns).step_by(S::F32_LANES) {
                let column = column.min(last);
                let x = &self.x[plane * of_x + column..][..x_reach];
                let y = &mut self.y[plane * of_y + column..][..y_reach];
                let mut above = across::<S, MAX>(simd, x);
                for line in 0..lines {
                    let below = across::<S, MAX>(simd, &x[(line + 1) * input[1]..]);
                    let made = fold::<S, MAX>(simd, above, below);
                    let made = if MAX { made } else { simd.mul_f32s(simd.splat_f32s(0.25), made) };
                    S::as_mut_simd_f32s(&mut y[line * columns..][..S::F32_LANES]).0[0] = made;
                    above = below;
                }
            }
        }
        if S::F32_LANES > 1 {
            self.overlapping::<Scalar, MAX>(Scalar, first.max(until));
        }
    }
}

/// Computes `N` adjacent windows on the first floats of these lines.
#[inline(always)]
fn of_pairs<const N: usize>(
    above: &[f32],
    below: &[f32],
    fold: impl Fn(f32, f32) -> f32,
    end: impl Fn(f32) -> f32,
) -> [f32; N] {
    let above: [[f32; 2]; N] = *above.as_chunks().0.first_chunk().expect("pairs");
    let below: [[f32; 2]; N] = *below.as_chunks().0.first_chunk().expect("pairs");
    let mut made = [0.0; N];
    for i in 0..N {
        made[i] = end(fold(fold(above[i][0], below[i][0]), fold(above[i][1], below[i][1])));
    }
    made
}

/// `a` if `a > b`, else `b`, like the processor's maximum instruction (also for NaN). Without `MAX`, the sum.
#[inline(always)]
fn fold<S: Simd, const MAX: bool>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
    if MAX { simd.select_f32s(simd.greater_than_f32s(a, b), a, b) } else { simd.add_f32s(a, b) }
}

/// Folds neighbours in a line, from the start of `line`.
#[inline(always)]
fn across<S: Simd, const MAX: bool>(simd: S, line: &[f32]) -> S::f32s {
    let line = &line[..S::F32_LANES + 1];
    fold::<S, MAX>(simd, S::as_simd_f32s(line).0[0], S::as_simd_f32s(&line[1..]).0[0])
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match (self.pool, self.windows.stride) {
            (Pool::Max, [1, 1]) => self.overlapping::<S, true>(simd, 0),
            (Pool::Average, [1, 1]) => self.overlapping::<S, false>(simd, 0),
            (Pool::Max, _) => self.side_by_side(|a, b| if a > b { a } else { b }, |most| most),
            (Pool::Average, _) => self.side_by_side(|a, b| a + b, |sum| 0.25 * sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::testing::{Width, numbers};

    const INPUTS: [([usize; 2], usize); 15] = [
        ([4, 6], 2),
        ([8, 8], 2),
        ([5, 8], 2),
        ([6, 33], 2),
        ([7, 37], 2),
        ([3, 35], 2),
        ([2, 16], 2),
        ([5, 18], 2),
        ([14, 14], 1),
        ([5, 9], 1),
        ([2, 2], 1),
        ([9, 5], 1),
        ([2, 17], 1),
        ([3, 18], 1),
        ([4, 45], 1),
    ];

    fn pooled(pool: Pool, windows: Windows, width: Width, x: &[f32], y: &mut [f32]) -> bool {
        width.run(Run { pool, windows, x, y })
    }

    #[test]
    fn match_definition_at_every_width() {
        for (input, stride) in INPUTS {
            let windows = Pool::windows(input, stride).unwrap();
            let [lines, columns] = windows.output;
            let x: Vec<f32> = (0..15 * input[0] * input[1]).map(|i| (i * 7919 % 127) as f32 / 64.0 - 1.0).collect();
            for pool in [Pool::Max, Pool::Average] {
                let mut want = vec![];
                for plane in x.chunks(input[0] * input[1]) {
                    for (y, x) in (0..lines).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                        let taps = [[0, 0], [0, 1], [1, 0], [1, 1]].into_iter();
                        let taps = taps.map(|[k, j]| plane[(y * stride + k) * input[1] + x * stride + j]);
                        want.push(match pool {
                            Pool::Max => taps.fold(f32::NEG_INFINITY, f32::max),
                            Pool::Average => taps.sum::<f32>() / 4.0,
                        });
                    }
                }
                for width in [Width::Dispatched, Width::Eight, Width::One] {
                    let mut y = vec![f32::NAN; want.len()];
                    if pooled(pool, windows, width, &x, &mut y) {
                        assert_eq!(y, want, "{pool:?} of {windows:?}, {width:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_place() {
        for (input, stride) in INPUTS {
            let windows = Pool::windows(input, stride).unwrap();
            let mut plane = numbers(input[0] * input[1], 1);
            plane[1] = f32::NAN;
            *plane.last_mut().unwrap() = f32::INFINITY;
            for pool in [Pool::Max, Pool::Average] {
                let made = windows.output[0] * windows.output[1];
                let bits = |width, planes: usize| {
                    let mut y = vec![0.0; planes * made];
                    pooled(pool, windows, width, &plane.repeat(planes), &mut y)
                        .then(|| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>())
                };
                let alone = bits(Width::Dispatched, 1).unwrap();
                for all in [bits(Width::Dispatched, 30), bits(Width::Eight, 30)].into_iter().flatten() {
                    assert_eq!(all, alone.repeat(30), "{pool:?} of {windows:?}");
                }
            }
        }
    }
}
