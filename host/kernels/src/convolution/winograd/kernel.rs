//! One sample's gradient of a kernel: `dW[o, c, k, j] = Σ_{y, x} dY[o, y, x] · X[c, y + k − p, x + j − p]`.
//!
//! Channels are in the lanes, and tiles are summed sequentially: each entry is a running sum over the tiles in
//! row-major order. Both sides are packed in reading order, tile after tile, and a block's channels stay in the cache
//! while all outputs are computed.
//!
//! Memory: a sample's input and output gradient with their channels innermost, and both at their points (5 times as
//! much each). Also the sums of a few outputs.

use super::super::windows::Windows;
use super::{POINTS, TILE, VECTORS, WIDE_TILE, at_points, column_of, load, store, three, tiles};
use crate::simd::{Aligned, MAX_LANES, SIDE, most_vectors, turn};
use pulp::{Arch, Simd, WithSimd};

/// Weights of a kernel: the lines of two squares, plus one.
const TAPS: usize = 2 * SIDE + 1;

/// Outputs whose sums are computed point by point, if there are many tiles. Each point's channels are then read once
/// for all of them.
const ABREAST: usize = 4 * WIDE_TILE;
const MANY_TILES: usize = 64;

/// Winograd gradient of a kernel, with memory for a sample.
#[derive(Clone, Debug)]
pub struct WinogradKernelGrad {
    windows: Windows,
    /// Channels and outputs, rounded up to full registers.
    wide: usize,
    tall: usize,
    /// Padded input as `[lines, columns, wide]`, with zero padding.
    x: Aligned,
    /// Output gradient as `[lines, columns, tall]` in whole tiles, with zeros past the outputs.
    left: Aligned,
    /// `[blocks of channels, POINTS, tiles, channels of a block]` and
    /// `[registers of outputs, POINTS, tiles, outputs of a register]`, with a cache line after each point. Strides of a
    /// power of two would cause cache conflicts.
    x_points: Aligned,
    left_points: Aligned,
    /// Sums of the outputs computed together, `[POINTS, outputs, channels of a block]`.
    sums: Aligned,
    /// Gradients as `[TAPS, channels of a block]`.
    taps: Aligned,
    vectors: Arch,
}

impl WinogradKernelGrad {
    /// Gradient for windows that [`suits`](super::suits) accepts.
    pub fn new(windows: Windows) -> Self {
        let (wide, tall) = (windows.channels.next_multiple_of(MAX_LANES), windows.outputs.next_multiple_of(MAX_LANES));
        let [lines, columns] = tiles(&windows);
        let tiles = lines * columns;
        Self {
            windows,
            wide,
            tall,
            x: Aligned::zeros((2 * lines + 2) * (2 * columns + 2) * wide),
            left: Aligned::zeros(4 * tiles * tall),
            x_points: Aligned::default(),
            left_points: Aligned::default(),
            sums: Aligned::zeros(POINTS * (ABREAST * VECTORS + 1) * MAX_LANES),
            taps: Aligned::zeros(TAPS * VECTORS * MAX_LANES),
            vectors: Arch::new(),
        }
    }

    /// Writes the gradient `[O, C, 3, 3]` of a sample with the output gradient `left` `[O, *output]` and the input `x`
    /// `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        let vectors = self.vectors;
        vectors.dispatch(Write { of: self, left, x, grad });
    }

    /// Transforms all tiles, for output tiles of `M`.
    #[inline(always)]
    fn transform<S: Simd, const M: usize>(&mut self, simd: S) {
        let (wide, tall) = (self.wide, self.tall);
        let [lines, columns] = tiles(&self.windows);
        let tiles = lines * columns;
        let (zero, half) = (simd.splat_f32s(0.0), simd.splat_f32s(0.5));
        let x_points = self.x_points.of_len(POINTS * (tiles * wide + Block::all::<S>(wide).count() * MAX_LANES));
        let across_left = S::F32_LANES.max(M);
        let left_points = self.left_points.of_len(POINTS * (tiles * tall + tall / across_left * MAX_LANES));
        for (line, column) in (0..lines).flat_map(|line| (0..columns).map(move |column| (line, column))) {
            let place = line * columns + column;
            for block in Block::all::<S>(wide) {
                let panel = &mut x_points[block.start(tiles)..][..POINTS * block.apart(tiles)];
                for at in (0..block.across).step_by(S::F32_LANES) {
                    let mut tile = [[zero; 4]; 4];
                    for (i, tile) in tile.iter_mut().enumerate() {
                        let from = ((2 * line + i) * (2 * columns + 2) + 2 * column) * wide + block.first + at;
                        let row = &self.x[from..][..3 * wide + S::F32_LANES];
                        let row = [
                            load::<S>(row, 0),
                            load::<S>(row, wide),
                            load::<S>(row, 2 * wide),
                            load::<S>(row, 3 * wide),
                        ];
                        *tile = at_points(simd, row);
                    }
                    for j in 0..4 {
                        let points = at_points(simd, column_of(&tile, j));
                        for (i, point) in points.into_iter().enumerate() {
                            let into = (4 * i + j) * block.apart(tiles) + place * block.across + at;
                            store(simd, &mut panel[into..][..S::F32_LANES], point);
                        }
                    }
                }
            }
            for output in (0..tall).step_by(S::F32_LANES) {
                let mut tile = [[zero; 4]; 2];
                for (i, tile) in tile.iter_mut().enumerate() {
                    let from = ((2 * line + i) * 2 * columns + 2 * column) * tall + output;
                    let row = &self.left[from..][..tall + S::F32_LANES];
                    *tile = left_at_points(simd, half, [load::<S>(row, 0), load::<S>(row, tall)]);
                }
                let (panel, at) = (output / across_left, output % across_left);
                for j in 0..4 {
                    let points = left_at_points(simd, half, column_of(&tile, j));
                    for (i, point) in points.into_iter().enumerate() {
                        let point_at = (panel * POINTS + 4 * i + j) * (tiles * across_left + MAX_LANES);
                        let into = point_at + place * across_left + at;
                        store(simd, &mut left_points[into..][..S::F32_LANES], point);
                    }
                }
            }
        }
    }

    /// Sums the products of the outputs from `first` on, `M` at a time, with the `N` registers of a block of channels.
    #[inline(always)]
    fn multiply<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, first: usize, end: usize, block: Block) {
        let (across, across_left) = (N * S::F32_LANES, S::F32_LANES.max(M));
        let [lines, columns] = tiles(&self.windows);
        let tiles = lines * columns;
        let points = self.x_points[block.start(tiles)..].chunks_exact(block.apart(tiles));
        for (point, (x, into)) in points.zip(self.sums.chunks_exact_mut(sums_apart(across))).take(POINTS).enumerate() {
            let x = x[..tiles * across].chunks_exact(across);
            for output in (first..end).step_by(M) {
                let (panel, at) = (output / across_left, output % across_left);
                let left = &self.left_points[(panel * POINTS + point) * (tiles * across_left + MAX_LANES)..];
                let left = left[..tiles * across_left].chunks_exact(across_left);
                let mut sums = [[simd.splat_f32s(0.0); N]; M];
                for (x, left) in x.clone().zip(left) {
                    let vectors: [S::f32s; N] = *S::as_simd_f32s(x).0.first_chunk().expect("a block's channels");
                    let left: &[f32; M] = left[at..].first_chunk().expect("a tile's outputs");
                    for (sums, left) in sums.iter_mut().zip(left) {
                        let left = simd.splat_f32s(*left);
                        for (sum, vector) in sums.iter_mut().zip(vectors) {
                            *sum = simd.mul_add_e_f32s(left, vector, *sum);
                        }
                    }
                }
                let into = into[(output - first) * across..][..M * across].chunks_exact_mut(across);
                for (sums, into) in sums.iter().zip(into) {
                    S::as_mut_simd_f32s(into).0.copy_from_slice(sums);
                }
            }
        }
    }

    /// Writes the weights' gradients from those sums.
    #[inline(always)]
    fn write_taps<S: Simd>(&mut self, simd: S, first: usize, end: usize, block: Block, grad: &mut [f32]) {
        let (across, channels, zero) = (block.across, self.windows.channels, simd.splat_f32s(0.0));
        let count = across.min(channels - block.first);
        for output in first..end {
            for at in (0..across).step_by(S::F32_LANES) {
                let mut sums = [[zero; 3]; 4];
                for (i, sums) in sums.iter_mut().enumerate() {
                    let mut points = [zero; 4];
                    for (j, point) in points.iter_mut().enumerate() {
                        let from = (4 * i + j) * sums_apart(across) + (output - first) * across + at;
                        *point = load::<S>(&self.sums, from);
                    }
                    *sums = three(simd, points);
                }
                for j in 0..3 {
                    let taps = three(simd, column_of(&sums, j));
                    for (i, tap) in taps.into_iter().enumerate() {
                        store(simd, &mut self.taps[(3 * i + j) * across + at..][..S::F32_LANES], tap);
                    }
                }
            }
            let grad = &mut grad[(output * channels + block.first) * TAPS..][..count * TAPS];
            turn(&self.taps, grad, [TAPS, count], [across, TAPS]);
        }
    }

    /// Computes all outputs, `M` at a time.
    #[inline(always)]
    fn outputs<S: Simd, const M: usize>(&mut self, simd: S, grad: &mut [f32]) {
        self.transform::<S, M>(simd);
        let ([lines, columns], Windows { channels, outputs, .. }) = (tiles(&self.windows), self.windows);
        let abreast = if lines * columns >= MANY_TILES { ABREAST } else { M };
        for block in Block::all::<S>(self.wide).take_while(|block| block.first < channels) {
            for first in (0..outputs).step_by(abreast) {
                let end = outputs.min(first + abreast);
                match block.across / S::F32_LANES {
                    1 => self.multiply::<S, M, 1>(simd, first, end, block),
                    2 => self.multiply::<S, M, 2>(simd, first, end, block),
                    _ => self.multiply::<S, M, VECTORS>(simd, first, end, block),
                }
                self.write_taps(simd, first, end, block, grad);
            }
        }
    }
}

/// Distance between the sums of two points, in floats: the sums and a cache line.
#[inline(always)]
fn sums_apart(across: usize) -> usize {
    ABREAST * across + MAX_LANES
}

/// Block of some registers of channels.
#[derive(Clone, Copy)]
struct Block {
    index: usize,
    /// First channel.
    first: usize,
    /// Number of channels.
    across: usize,
}

impl Block {
    /// As few blocks as possible, of sizes as equal as possible: a block of a single register would not use the
    /// processor fully.
    #[inline(always)]
    fn all<S: Simd>(wide: usize) -> impl Iterator<Item = Self> {
        let vectors = wide / S::F32_LANES;
        let count = vectors.div_ceil(most_vectors::<S>());
        let start = move |index| index * vectors / count * S::F32_LANES;
        (0..count).map(move |index| Self { index, first: start(index), across: start(index + 1) - start(index) })
    }

    /// Offset of its points.
    #[inline(always)]
    fn start(&self, tiles: usize) -> usize {
        POINTS * (tiles * self.first + self.index * MAX_LANES)
    }

    /// Distance between its points: their size plus a cache line.
    #[inline(always)]
    fn apart(&self, tiles: usize) -> usize {
        tiles * self.across + MAX_LANES
    }
}

/// Gradient computation for one sample.
struct Write<'a> {
    of: &'a mut WinogradKernelGrad,
    left: &'a [f32],
    x: &'a [f32],
    grad: &'a mut [f32],
}

impl WithSimd for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { of, left, x, grad } = self;
        let Windows { input, output, before: [top, start], .. } = of.windows;
        let columns = 2 * tiles(&of.windows)[1];
        turn_inside_out(x, input, &mut of.x[(top * (columns + 2) + start) * of.wide..], columns + 2, of.wide);
        turn_inside_out(left, output, &mut of.left, columns, of.tall);
        if S::F32_LANES >= MAX_LANES {
            of.outputs::<S, WIDE_TILE>(simd, grad)
        } else {
            of.outputs::<S, TILE>(simd, grad)
        }
    }
}

/// Transforms two output gradients to their points.
#[inline(always)]
fn left_at_points<S: Simd>(simd: S, half: S::f32s, [a, b]: [S::f32s; 2]) -> [S::f32s; 4] {
    let (a_half, b_half) = (simd.mul_f32s(a, half), simd.mul_f32s(b, half));
    [a, simd.add_f32s(a_half, b_half), simd.sub_f32s(a_half, b_half), b]
}

/// Transposes planes `[*, lines, columns]` to entries with channels innermost. Entries are `wide` floats apart, with
/// `pitch` entries per line.
#[inline(always)]
fn turn_inside_out(planes: &[f32], [lines, columns]: [usize; 2], into: &mut [f32], pitch: usize, wide: usize) {
    let plane = lines * columns;
    for line in 0..lines {
        let (from, into) = (&planes[line * columns..], &mut into[line * pitch * wide..]);
        turn(from, into, [planes.len() / plane, columns], [plane, wide]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{plain_cases, positions, taps, under};
    use super::*;
    use crate::simd::testing::{check, numbers};
    use pulp::Scalar;

    /// Definition of the gradient, in f64.
    fn reference(windows: &Windows, left: &[f32], x: &[f32]) -> Vec<f64> {
        let (input, output) = (windows.input[0] * windows.input[1], windows.output[0] * windows.output[1]);
        let entry = |left: &[f32], plane: &[f32], tap: [usize; 2]| -> f64 {
            positions(windows).zip(left).map(|(at, left)| f64::from(*left) * under(windows, plane, at, tap)).sum()
        };
        let of_planes =
            |left| x.chunks(input).flat_map(move |plane| taps(windows).map(move |tap| entry(left, plane, tap)));
        left.chunks(output).flat_map(of_planes).collect()
    }

    // The gradient of a convolution kernel equals its definition for every SIMD width.
    #[test]
    fn gradient_matches_definition_every_width() {
        for windows in plain_cases() {
            let Windows { channels, outputs, input, output, .. } = windows;
            let mut of = WinogradKernelGrad::new(windows);
            for seed in [1, 2] {
                let left = numbers(outputs * output[0] * output[1], seed);
                let x = numbers(channels * input[0] * input[1], 3 * seed);
                let want = reference(&windows, &left, &x);
                let mut grad = vec![f32::NAN; want.len()];
                let check = |grad: &mut [f32], width: &str| {
                    check(&format!("{windows:?}, {width}"), grad, &want, output[0] * output[1]);
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
    fn the_sample_before_leaves_no_trace() {
        for windows in plain_cases() {
            let Windows { channels, outputs, input, output, .. } = windows;
            let (mut used, mut fresh) = (WinogradKernelGrad::new(windows), WinogradKernelGrad::new(windows));
            let left = numbers(outputs * output[0] * output[1], 5);
            let x = numbers(channels * input[0] * input[1], 6);
            let mut grads = [(); 3].map(|()| vec![0.0; 9 * outputs * channels]);
            used.write(&vec![f32::NAN; left.len()], &vec![f32::INFINITY; x.len()], &mut grads[2]);
            used.write(&left, &x, &mut grads[0]);
            fresh.write(&left, &x, &mut grads[1]);
            assert_eq!(grads[0], grads[1]);
        }
    }
}
