//! The convolution `Y[o, y, x] = B[o] + Σ_{c, k, j} W[o, c, k, j] · X[c, y + k − p, x + j − p]`, and the convolution
//! for the gradient from its outputs to its inputs.
//!
//! Tiles are in the lanes: those of a line, of the next lines, and of the next samples. A block of tiles is transformed
//! for all channels, multiplied with all kernels, and written. It stays in the processor's caches during that time.
//!
//! Memory: the kernels, in the original layout and transformed (`25/9` of their size), and a block's inputs,
//! `16 · 48 · C` floats.

use super::super::windows::{Windows, take};
use super::{POINTS, VECTORS, WIDE_TILE, at_points, column_of, load, store, tiles, two};
use crate::simd::{Aligned, MAX_LANES, SimdCall, SimdKernel};
use pulp::Simd;

/// Tiles of the largest block.
const BLOCK: usize = VECTORS * MAX_LANES;
/// Outputs of a tile of sums with eight lanes. With four outputs, their weights, three registers of inputs and twelve
/// of sums exceed the sixteen registers by one. A sum would then be spilled each time.
const NARROW_TILE: usize = 3;

/// Winograd convolution, with memory for a block, and for the kernels of the last call.
#[derive(Debug)]
pub struct WinogradConvolution {
    windows: Windows,
    transposed: bool,
    /// Weights of the last call.
    weights: Vec<f32>,
    /// Kernels as `[tiles of outputs, POINTS, C, outputs of a tile]`.
    kernels: Vec<f32>,
    /// Inputs as `[POINTS, C, tiles]`, with a cache line after each point. Strides of a power of two would cause cache
    /// conflicts.
    inputs: Aligned,
    /// Sums as `[POINTS, outputs of a tile, tiles]`.
    sums: Aligned,
    /// Rows under some lines of tiles, with even columns before odd columns, and a register of padding after each.
    rows: Vec<f32>,
    /// Floats in a row's even columns.
    pitch: usize,
    /// Even columns of the even and odd lines of a block's outputs. `odd` has the odd columns.
    even: [Vec<f32>; 2],
    odd: [Vec<f32>; 2],
    pieces: Vec<Piece>,
}

/// Tiles of a block within a sample: whole lines of tiles, or part of a line.
#[derive(Clone, Copy, Debug)]
struct Piece {
    sample: usize,
    line: usize,
    lines: usize,
    column: usize,
    columns: usize,
    /// Position in the block.
    at: usize,
}

impl WinogradConvolution {
    /// Convolution over `windows`. With `transposed`, it computes the gradient of a convolution from outputs (here the
    /// channels) to inputs. The weights `[C, O, 3, 3]` are those of that convolution.
    pub fn new(windows: Windows, transposed: bool) -> Self {
        let across = tiles(&windows)[1].min(BLOCK);
        let pitch = (across + 1).next_multiple_of(MAX_LANES) + MAX_LANES;
        let halves = || std::array::from_fn(|_| vec![0.0; BLOCK]);
        Self {
            windows,
            transposed,
            weights: vec![],
            kernels: vec![],
            inputs: Aligned::zeros(POINTS * (windows.channels * BLOCK + MAX_LANES)),
            sums: Aligned::zeros(POINTS * WIDE_TILE * BLOCK),
            rows: vec![0.0; (2 * (BLOCK / across) + 2) * 2 * pitch],
            pitch,
            even: halves(),
            odd: halves(),
            pieces: vec![],
        }
    }

    /// Transforms the kernels, unless they are those of the last call.
    #[inline(always)]
    fn take_weights<const M: usize>(&mut self, weights: &[f32]) {
        if !take(&mut self.weights, weights) {
            return;
        }
        let Windows { channels, outputs, .. } = self.windows;
        self.kernels.clear();
        self.kernels.resize(outputs.div_ceil(M) * POINTS * channels * M, 0.0);
        for (tile, kernels) in self.kernels.chunks_exact_mut(POINTS * channels * M).enumerate() {
            for output in tile * M..outputs.min((tile + 1) * M) {
                for channel in 0..channels {
                    let place = |tap| self.windows.weight(self.transposed, [channel, output], tap);
                    let kernel: [f32; 9] = std::array::from_fn(|tap| weights[place(tap)]);
                    let [a, b, c] = [0, 3, 6].map(|line| kernel_at_points([0, 1, 2].map(|j| kernel[line + j])));
                    for j in 0..4 {
                        for (i, entry) in kernel_at_points([a[j], b[j], c[j]]).into_iter().enumerate() {
                            kernels[((4 * i + j) * channels + channel) * M + output - tile * M] = entry;
                        }
                    }
                }
            }
        }
    }

    /// Copies the rows under a piece from one channel's plane.
    #[inline(always)]
    fn take_rows(&mut self, plane: &[f32], piece: Piece) {
        let ([lines, columns], [top, start]) = (self.windows.input, self.windows.before);
        let (skip, from) = (start.saturating_sub(2 * piece.column), (2 * piece.column).saturating_sub(start));
        let reach = 2 * piece.columns + 2;
        let count = (reach - skip).min(columns.saturating_sub(from));
        for (row, into) in self.rows.chunks_exact_mut(2 * self.pitch).take(2 * piece.lines + 2).enumerate() {
            let (even, odd) = into.split_at_mut(self.pitch);
            let Some(line) = (2 * piece.line + row).checked_sub(top).filter(|line| *line < lines) else {
                even[..piece.columns + 1].fill(0.0);
                odd[..piece.columns + 1].fill(0.0);
                continue;
            };
            for column in (0..skip).chain(skip + count..reach) {
                if column % 2 == 0 { even[column / 2] = 0.0 } else { odd[column / 2] = 0.0 }
            }
            let x = &plane[line * columns + from.min(columns)..][..count];
            if skip % 2 == 0 {
                part(x, &mut even[skip / 2..], &mut odd[skip / 2..]);
            } else {
                part(x, &mut odd[skip / 2..], &mut even[skip / 2 + 1..]);
            }
        }
    }

    /// Transforms a piece's tiles, in a block of `tiles`.
    #[inline(always)]
    fn transform<S: Simd>(&mut self, simd: S, x: &[f32], piece: Piece, tiles: usize) {
        let (channels, pitch) = (self.windows.channels, self.pitch);
        let plane = self.windows.input[0] * self.windows.input[1];
        let apart = channels * tiles + MAX_LANES;
        for channel in 0..channels {
            self.take_rows(&x[(piece.sample * channels + channel) * plane..][..plane], piece);
            for line in 0..piece.lines {
                let rows = &self.rows[4 * line * pitch..][..8 * pitch];
                for start in (0..piece.columns).step_by(S::F32_LANES) {
                    // A full register may write past the line, and the next lines overwrite that. Full stores are
                    // cheaper, as long as there is room.
                    let place = piece.at + line * piece.columns + start;
                    let count = if place + S::F32_LANES <= tiles { S::F32_LANES } else { piece.columns - start };
                    let mut tile = [[simd.splat_f32s(0.0); 4]; 4];
                    for (i, tile) in tile.iter_mut().enumerate() {
                        let even = &rows[2 * i * pitch + start..][..S::F32_LANES + 1];
                        let odd = &rows[(2 * i + 1) * pitch + start..][..S::F32_LANES + 1];
                        let line = [load::<S>(even, 0), load::<S>(odd, 0), load::<S>(even, 1), load::<S>(odd, 1)];
                        *tile = at_points(simd, line);
                    }
                    for j in 0..4 {
                        let points = at_points(simd, column_of(&tile, j));
                        for (i, point) in points.into_iter().enumerate() {
                            let into = (4 * i + j) * apart + channel * tiles + place;
                            store(simd, &mut self.inputs[into..][..count], point);
                        }
                    }
                }
            }
        }
    }

    /// Sums the products of a block of `N` registers with the kernels of `M` outputs.
    #[inline(always)]
    fn multiply<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, tile: usize) {
        let (channels, tiles) = (self.windows.channels, N * S::F32_LANES);
        let kernels = self.kernels.chunks_exact(channels * M).skip(tile * POINTS);
        let inputs = self.inputs.chunks_exact(channels * tiles + MAX_LANES);
        for ((kernels, inputs), into) in kernels.zip(inputs).zip(self.sums.chunks_exact_mut(M * tiles)) {
            let mut sums = [[simd.splat_f32s(0.0); N]; M];
            let inputs = inputs[..channels * tiles].chunks_exact(tiles);
            for (kernel, inputs) in kernels.as_chunks::<M>().0.iter().zip(inputs) {
                let (vectors, _) = S::as_simd_f32s(inputs);
                let vectors: [S::f32s; N] = std::array::from_fn(|n| vectors[n]);
                for (sums, weight) in sums.iter_mut().zip(kernel) {
                    let weight = simd.splat_f32s(*weight);
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = simd.mul_add_e_f32s(weight, vector, *sum);
                    }
                }
            }
            for (sums, into) in sums.iter().zip(into.chunks_exact_mut(tiles)) {
                S::as_mut_simd_f32s(into).0.copy_from_slice(sums);
            }
        }
    }

    /// Writes the outputs from those sums.
    #[inline(always)]
    fn write<S: Simd, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        tile: usize,
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        let ([lines, columns], tiles) = (self.windows.output, N * S::F32_LANES);
        for output in tile * M..self.windows.outputs.min((tile + 1) * M) {
            let bias = simd.splat_f32s(bias.map_or(0.0, |bias| bias[output]));
            for place in (0..tiles).step_by(S::F32_LANES) {
                let mut sums = [[simd.splat_f32s(0.0); 2]; 4];
                for (i, sums) in sums.iter_mut().enumerate() {
                    let mut points = [simd.splat_f32s(0.0); 4];
                    for (j, point) in points.iter_mut().enumerate() {
                        *point = load::<S>(&self.sums, ((4 * i + j) * M + output - tile * M) * tiles + place);
                    }
                    *sums = two(simd, points);
                }
                for (j, halves) in [&mut self.even, &mut self.odd].into_iter().enumerate() {
                    let pair = two(simd, column_of(&sums, j));
                    for (half, entries) in halves.iter_mut().zip(pair) {
                        store(simd, &mut half[place..][..S::F32_LANES], simd.add_f32s(entries, bias));
                    }
                }
            }
            for piece in &self.pieces {
                let plane = (piece.sample * self.windows.outputs + output) * lines * columns;
                for line in 0..(2 * piece.lines).min(lines - 2 * piece.line) {
                    let count = (2 * piece.columns).min(columns - 2 * piece.column);
                    let into = plane + (2 * piece.line + line) * columns + 2 * piece.column;
                    let place = piece.at + line / 2 * piece.columns;
                    let (even, odd) = (&self.even[line % 2][place..], &self.odd[line % 2][place..]);
                    join(&even[..piece.columns], &odd[..piece.columns], &mut y[into..][..count]);
                }
            }
        }
    }

    /// Lists the pieces of `count` tiles, after the first `at` tiles of all samples.
    fn list_pieces(&mut self, at: usize, count: usize) {
        let [lines, columns] = tiles(&self.windows);
        self.pieces.clear();
        let mut done = 0;
        while done < count {
            let (line, column) = ((at + done) / columns, (at + done) % columns);
            let left = count - done;
            let (sample, line) = (line / lines, line % lines);
            let piece = if column > 0 || left < columns {
                Piece { sample, line, lines: 1, column, columns: left.min(columns - column), at: done }
            } else {
                Piece { sample, line, lines: (left / columns).min(lines - line), column, columns, at: done }
            };
            self.pieces.push(piece);
            done += piece.lines * piece.columns;
        }
    }

    /// Computes a block of `N` registers of tiles.
    #[inline(always)]
    fn block<S: Simd, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        x: &[f32],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        for index in 0..self.pieces.len() {
            self.transform(simd, x, self.pieces[index], N * S::F32_LANES);
        }
        for tile in 0..self.windows.outputs.div_ceil(M) {
            self.multiply::<S, M, N>(simd, tile);
            self.write::<S, M, N>(simd, tile, bias, y);
        }
    }

    /// Computes the outputs, a few registers of input tiles at a time.
    #[inline(always)]
    fn by_vectors<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        x: &[f32],
        weights: &[f32],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        self.take_weights::<M>(weights);
        let Windows { channels, input, .. } = self.windows;
        let [lines, columns] = tiles(&self.windows);
        let total = x.len() / (channels * input[0] * input[1]) * lines * columns;
        for at in (0..total).step_by(VECTORS * S::F32_LANES) {
            let count = (total - at).min(VECTORS * S::F32_LANES);
            self.list_pieces(at, count);
            match count.div_ceil(S::F32_LANES) {
                1 => self.block::<S, M, 1>(simd, x, bias, y),
                2 => self.block::<S, M, 2>(simd, x, bias, y),
                _ => self.block::<S, M, VECTORS>(simd, x, bias, y),
            }
        }
    }
}

impl SimdKernel for WinogradConvolution {
    #[inline(always)]
    fn work<S: Simd>(SimdCall { of, x, weights, bias, y }: SimdCall<'_, Self>, simd: S) {
        if S::F32_LANES >= MAX_LANES {
            of.by_vectors::<S, WIDE_TILE>(simd, x, weights, bias, y);
        } else {
            of.by_vectors::<S, NARROW_TILE>(simd, x, weights, bias, y);
        }
    }
}

/// Transforms three weights to their points.
fn kernel_at_points([a, b, c]: [f32; 3]) -> [f32; 4] {
    let ends = a + c;
    [a, 0.5 * (ends + b), 0.5 * (ends - b), c]
}

/// De-interleaves `row`. The loops have constant lengths, so that the compiler vectorises them.
#[inline(always)]
fn part(row: &[f32], first: &mut [f32], second: &mut [f32]) {
    let mut at = 0;
    macro_rules! part_by {
        ($count:literal) => {
            while row.len() >= 2 * (at + $count) {
                let row = row[2 * at..][..2 * $count].as_chunks::<2>().0;
                let (first, second) = (&mut first[at..][..$count], &mut second[at..][..$count]);
                for i in 0..$count {
                    [first[i], second[i]] = row[i];
                }
                at += $count;
            }
        };
    }
    part_by!(16);
    part_by!(8);
    part_by!(4);
    part_by!(1);
    if row.len() > 2 * at {
        first[at] = row[2 * at];
    }
}

/// Interleaves the results of [`part`] into as many columns as `row` has.
#[inline(always)]
fn join(first: &[f32], second: &[f32], row: &mut [f32]) {
    let mut at = 0;
    macro_rules! join_by {
        ($count:literal) => {
            while row.len() >= 2 * (at + $count) {
                let row = row[2 * at..][..2 * $count].as_chunks_mut::<2>().0;
                let (first, second) = (&first[at..][..$count], &second[at..][..$count]);
                for i in 0..$count {
                    row[i] = [first[i], second[i]];
                }
                at += $count;
            }
        };
    }
    join_by!(16);
    join_by!(8);
    join_by!(4);
    join_by!(1);
    if row.len() > 2 * at {
        row[2 * at] = first[at];
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{
        Convolves, convolutions_are_their_definition, plain_cases, samples_keep_to_themselves,
    };
    use super::*;

    impl Convolves for WinogradConvolution {
        fn over(windows: Windows, transposed: bool) -> Self {
            Self::new(windows, transposed)
        }
    }

    // The convolution equals its definition for every SIMD width.
    #[test]
    fn matches_definition_at_every_width() {
        convolutions_are_their_definition::<WinogradConvolution>(plain_cases());
    }

    // Neither other samples nor previous calls change the bits of a sample.
    #[test]
    fn sample_bits_depend_on_own_sample() {
        samples_keep_to_themselves::<WinogradConvolution>(plain_cases());
    }
}
