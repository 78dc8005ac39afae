//! One sample's gradient of a convolution kernel:
//! `dW[o, c, k, j] = Σ_{y, x} dY[o, y, x] · X[c, s y + d k − p, s x + j − p]`.
//!
//! This is a product of two matrices over the windows: `[outputs, windows]` times `[windows, taps of some channels]`.
//! Both are packed in reading order, window after window and aligned to cache lines, because windows are often a power
//! of two apart. Channels are processed in groups. A group's windows stay in the cache while all outputs are computed,
//! and its part of an output's gradient is contiguous.
//!
//! Memory: the padded sample, its output gradient, the windows of a group, and the gradient of a few outputs.
//!
//! Numerics: each entry is one running sum over the windows in row-major order, with fused multiply-adds if the
//! processor supports them. Its bits depend on the sample, the parameters and the kind of processor, but not on the
//! SIMD width.

use crate::convolution::Windows;
use crate::simd::{Aligned, MAX_LANES, most_vectors, turn};
use pulp::{Arch, Simd, WithSimd};

/// Registers of the widest tile.
const VECTORS: usize = 3;
/// Outputs of a tile, limited by the number of registers, for the widest SIMD and for others.
const WIDE_TILE: usize = 8;
const TILE: usize = 4;

/// Gradient of a kernel `[O, C, *kernel]`, with memory for a sample.
#[derive(Clone, Debug)]
pub struct DefinedKernelGrad {
    windows: Windows,
    /// Lines and columns that the windows cover.
    reach: [usize; 2],
    groups: Vec<Group>,
    /// Padded sample as `[*reach, C]`, with zero padding, and room for one copied segment after it.
    padded: Aligned,
    /// Output gradient as `[tiles, windows, outputs of a tile]`.
    left: Aligned,
    /// Windows as `[windows, floats of a group]`. Rows are an odd number of cache lines apart, because a power of two
    /// would cause cache conflicts.
    panel: Aligned,
    /// Sums as `[outputs of a tile, floats of a group]`.
    tile: Aligned,
    vectors: Arch,
}

/// Adjacent channels, with their taps in the order `[taps, channels]`.
#[derive(Clone, Debug)]
struct Group {
    first: usize,
    channels: usize,
    /// Offsets of a window's floats in the padded sample, one register at a time, and their destinations. Floats copied
    /// past the end are overwritten by the next copy.
    pieces: Vec<[usize; 2]>,
}

impl Group {
    /// Number of floats in a window.
    fn floats(&self, taps: usize) -> usize {
        taps * self.channels
    }
}

/// Distance between rows of this many floats.
fn apart(floats: usize) -> usize {
    (floats.div_ceil(MAX_LANES) | 1) * MAX_LANES
}

impl DefinedKernelGrad {
    /// Gradient for windows with dilation 1 along the line.
    pub fn new(windows: &Windows) -> Self {
        let Windows { channels, outputs, output, kernel, stride, dilation: [dilation, _], .. } = *windows;
        let reach =
            [(output[0] - 1) * stride[0] + (kernel[0] - 1) * dilation + 1, (output[1] - 1) * stride[1] + kernel[1]];
        let (taps, positions) = (kernel[0] * kernel[1], output[0] * output[1]);
        let line = reach[1] * channels;
        // A full register of channels, or several if the taps are too few to fill a tile.
        let wide = MAX_LANES * (VECTORS / taps).max(1);
        let count = channels.div_ceil(wide);
        let most = channels.div_ceil(count).next_multiple_of(MAX_LANES).min(channels);
        let group = |first: usize| {
            let channels = most.min(channels - first);
            // The taps of a line are contiguous if the group has all channels.
            let (runs, len) =
                if channels == windows.channels { (1, kernel[1] * channels) } else { (kernel[1], channels) };
            let mut pieces = vec![];
            for (run, (k, j)) in (0..kernel[0]).flat_map(|k| (0..runs).map(move |j| (k, j))).enumerate() {
                let from = k * dilation * line + j * windows.channels + first;
                pieces.extend((0..len).step_by(MAX_LANES).map(|at| [from + at, run * len + at]));
            }
            Group { first, channels, pieces }
        };
        let groups: Vec<_> = (0..channels).step_by(most).map(group).collect();
        Self {
            windows: *windows,
            reach,
            groups,
            padded: Aligned::zeros(reach[0] * line + MAX_LANES),
            left: Aligned::zeros(outputs.next_multiple_of(WIDE_TILE) * positions),
            panel: Aligned::zeros(positions * apart(taps * most) + MAX_LANES),
            tile: Aligned::zeros(WIDE_TILE * apart(taps * most)),
            vectors: Arch::new(),
        }
    }

    /// Writes the gradient `[O, C, *kernel]` of a sample with the output gradient `left` `[O, *output]` and the input
    /// `x` `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        let vectors = self.vectors;
        vectors.dispatch(Write { of: self, left, x, grad });
    }

    /// Transposes the channels to be innermost, inside the padding.
    #[inline(always)]
    fn pad(&mut self, x: &[f32]) {
        let Windows { channels, input: [lines, columns], before: [top, start], .. } = self.windows;
        let line = self.reach[1] * channels;
        let [lines_read, columns_read] =
            [lines.min(self.reach[0].saturating_sub(top)), columns.min(self.reach[1].saturating_sub(start))];
        if columns_read == 0 {
            return;
        }
        for l in 0..lines_read {
            let into = &mut self.padded[(top + l) * line + start * channels..];
            turn(&x[l * columns..], into, [channels, columns_read], [lines * columns, channels]);
        }
    }

    /// Packs the output gradients in tiles of `M`.
    #[inline(always)]
    fn pack_left<const M: usize>(&mut self, left: &[f32]) {
        let positions = self.windows.output[0] * self.windows.output[1];
        for (tile, outputs) in self.left.chunks_exact_mut(M * positions).zip(left.chunks(M * positions)) {
            turn(outputs, tile, [outputs.len() / positions, positions], [positions, M]);
        }
    }

    /// Packs the windows of a group.
    #[inline(always)]
    fn pack_windows(&mut self, group: &Group, apart: usize) {
        let Windows { channels, output: [lines, columns], stride, .. } = self.windows;
        let (line, step) = (self.reach[1] * channels * stride[0], stride[1] * channels);
        for (position, (y, x)) in (0..lines).flat_map(|y| (0..columns).map(move |x| (y, x))).enumerate() {
            let (from, into) = (&self.padded[y * line + x * step..], &mut self.panel[position * apart..]);
            for [at, place] in &group.pieces {
                *into[*place..].first_chunk_mut::<MAX_LANES>().expect("room") =
                    *from[*at..].first_chunk().expect("room for a piece");
            }
        }
    }

    /// Sums `M` outputs by `N` registers, from float `at` on.
    #[inline(always)]
    fn sum<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, tile: usize, at: usize, apart: usize) {
        let positions = self.windows.output[0] * self.windows.output[1];
        let wide = N * S::F32_LANES;
        let left = self.left[tile * M * positions..][..M * positions].as_chunks::<M>().0;
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        for (left, row) in left.iter().zip(self.panel.chunks_exact(apart)) {
            let vectors: [S::f32s; N] = *S::as_simd_f32s(&row[at..][..wide]).0.first_chunk().expect("a tile's vectors");
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = simd.splat_f32s(*left);
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = simd.mul_add_e_f32s(left, vector, *sum);
                }
            }
        }
        for (sums, tile) in sums.iter().zip(self.tile.chunks_exact_mut(apart)) {
            S::as_mut_simd_f32s(&mut tile[at..][..wide]).0.copy_from_slice(sums);
        }
    }

    /// Computes all groups, in tiles of `M` outputs.
    #[inline(always)]
    fn groups<S: Simd, const M: usize>(&mut self, simd: S, left: &[f32], grad: &mut [f32]) {
        self.pack_left::<M>(left);
        let Windows { channels, outputs, kernel, .. } = self.windows;
        let taps = kernel[0] * kernel[1];
        let groups = std::mem::take(&mut self.groups);
        for group in &groups {
            let floats = group.floats(taps);
            let apart = apart(floats);
            self.pack_windows(group, apart);
            let vectors = floats.div_ceil(S::F32_LANES);
            let blocks = vectors.div_ceil(most_vectors::<S>());
            for (tile, first) in (0..outputs).step_by(M).enumerate() {
                for block in 0..blocks {
                    // Blocks of sizes as equal as possible.
                    let [start, end] = [block, block + 1].map(|block| block * vectors / blocks);
                    let at = start * S::F32_LANES;
                    match end - start {
                        1 => self.sum::<S, M, 1>(simd, tile, at, apart),
                        2 => self.sum::<S, M, 2>(simd, tile, at, apart),
                        _ => self.sum::<S, M, VECTORS>(simd, tile, at, apart),
                    }
                }
                // Transposes from taps by channels to channels by taps.
                for (output, sums) in (first..outputs.min(first + M)).zip(self.tile.chunks_exact(apart)) {
                    let grad = &mut grad[(output * channels + group.first) * taps..][..floats];
                    turn(sums, grad, [taps, group.channels], [group.channels, taps]);
                }
            }
        }
        self.groups = groups;
    }
}

/// Gradient computation for one sample.
struct Write<'a> {
    of: &'a mut DefinedKernelGrad,
    left: &'a [f32],
    x: &'a [f32],
    grad: &'a mut [f32],
}

impl WithSimd for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { of, left, x, grad } = self;
        of.pad(x);
        if S::F32_LANES >= MAX_LANES {
            of.groups::<S, WIDE_TILE>(simd, left, grad)
        } else {
            of.groups::<S, TILE>(simd, left, grad)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::testing::numbers;
    use pulp::Scalar;

    /// Windows over a plane, including uneven padding.
    fn windows(
        [outputs, channels]: [usize; 2],
        input: [usize; 2],
        kernel: [usize; 2],
        stride: [usize; 2],
        [before, after]: [[usize; 2]; 2],
        dilation: usize,
    ) -> Windows {
        let pads = [before, after];
        Windows::new([channels, outputs], input, pads, [kernel, stride, [dilation, 1]]).unwrap()
    }

    /// Definition in f64: each entry, and the sum of its products' magnitudes.
    fn reference(w: &Windows, left: &[f32], x: &[f32]) -> Vec<(f64, f64)> {
        let (outputs, channels) = (w.outputs, w.channels);
        let mut grad = vec![];
        for (o, c, k, j) in (0..outputs).flat_map(|o| {
            (0..channels)
                .flat_map(move |c| (0..w.kernel[0]).flat_map(move |k| (0..w.kernel[1]).map(move |j| (o, c, k, j))))
        }) {
            let (mut sum, mut size) = (0.0, 0.0);
            for (y, at) in (0..w.output[0]).flat_map(|y| (0..w.output[1]).map(move |at| (y, at))) {
                let line = (y * w.stride[0] + k * w.dilation[0]).checked_sub(w.before[0]).filter(|l| *l < w.input[0]);
                let column = (at * w.stride[1] + j).checked_sub(w.before[1]).filter(|c| *c < w.input[1]);
                if let (Some(line), Some(column)) = (line, column) {
                    let g = f64::from(left[(o * w.output[0] + y) * w.output[1] + at]);
                    let product = g * f64::from(x[(c * w.input[0] + line) * w.input[1] + column]);
                    (sum, size) = (sum + product, size + product.abs());
                }
            }
            grad.push((sum, size));
        }
        grad
    }

    fn cases() -> Vec<Windows> {
        vec![
            windows([5, 1], [9, 8], [3, 3], [1, 1], [[0, 0], [0, 0]], 1),
            windows([16, 1], [28, 28], [8, 8], [2, 2], [[3, 3], [3, 3]], 1),
            windows([7, 3], [8, 7], [3, 3], [1, 1], [[1, 1], [1, 1]], 1),
            windows([9, 16], [13, 13], [4, 4], [2, 2], [[0, 0], [0, 0]], 1),
            windows([4, 33], [6, 5], [3, 3], [1, 1], [[1, 1], [1, 1]], 1),
            windows([6, 5], [7, 6], [3, 2], [2, 3], [[0, 1], [2, 0]], 1),
            windows([3, 4], [9, 6], [2, 3], [1, 1], [[0, 0], [0, 0]], 3),
            windows([2, 64], [1, 9], [1, 5], [1, 2], [[0, 2], [0, 1]], 1),
            windows([1, 2], [5, 5], [2, 2], [2, 2], [[0, 0], [0, 0]], 1),
            windows([3, 2], [3, 4], [3, 4], [1, 1], [[0, 0], [0, 0]], 1),
        ]
    }

    #[test]
    fn matches_definition_at_every_width() {
        for (index, windows) in cases().into_iter().enumerate() {
            let mut of = DefinedKernelGrad::new(&windows);
            let [x_len, left_len] = windows.lens();
            let positions = left_len / windows.outputs;
            for seed in [1, 2] {
                let left = numbers(left_len, seed);
                let x = numbers(x_len, 3 * seed);
                let want = reference(&windows, &left, &x);
                let mut grad = vec![f32::NAN; want.len()];
                let check = |grad: &mut [f32], width: &str| {
                    for (at, (got, (want, size))) in grad.iter().zip(&want).enumerate() {
                        let off = (f64::from(*got) - want).abs();
                        let most = positions as f64 * f64::from(f32::EPSILON) * size;
                        assert!(off <= most, "case {index}, {width}, entry {at}: {got}, not {want}");
                    }
                    grad.fill(f32::NAN);
                };
                of.write(&left, &x, &mut grad);
                check(&mut grad, "as dispatched");
                Simd::vectorize(Scalar, Write { of: &mut of, left: &left, x: &x, grad: &mut grad });
                check(&mut grad, "one at a time");
                #[cfg(target_arch = "x86_64")]
                if let Some(narrow) = pulp::x86::V3::try_new() {
                    Simd::vectorize(narrow, Write { of: &mut of, left: &left, x: &x, grad: &mut grad });
                    check(&mut grad, "of eight");
                }
            }
        }
    }

    #[test]
    fn keeps_nothing_of_the_last_sample() {
        for windows in cases() {
            let (mut used, mut fresh) = (DefinedKernelGrad::new(&windows), DefinedKernelGrad::new(&windows));
            let [x_len, left_len] = windows.lens();
            let (left, x) = (numbers(left_len, 5), numbers(x_len, 6));
            let mut grads = [(); 3].map(|()| vec![0.0; windows.outputs * windows.taps()]);
            used.write(&vec![f32::NAN; left.len()], &vec![f32::INFINITY; x.len()], &mut grads[2]);
            used.write(&left, &x, &mut grads[0]);
            fresh.write(&left, &x, &mut grads[1]);
            assert_eq!(grads[0], grads[1]);
        }
    }
}
