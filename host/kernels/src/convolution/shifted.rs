//! Convolutions of few channels as sums of planes,
//! `Y[o] = Σ_{c, k, j} W[o, c, k, j] · X[c] shifted by (d k − p, e j − q) + B[o]`.
//!
//! Positions are in the lanes, line after line, and outputs are written in their final layout. Each plane is copied
//! once for each kernel column, with the lines of outputs and their padding. So the taps of a column are the same copy
//! at an offset of some lines.
//!
//! Memory: the kernels, in the original layout and in blocks of outputs, and the copies of a sample's planes.
//!
//! Numerics: each entry is one running sum over channels and taps in order, with fused multiply-adds if the processor
//! supports them. Its bits depend on the sample, the parameters and the kind of processor, but not on the SIMD width.

use super::windows::{Windows, copy_lines, take};
use crate::simd::{MAX_LANES, SimdCall, SimdKernel};
use pulp::Simd;

/// Outputs of a tile.
const OUTPUTS: usize = 4;

/// Registers of positions in the widest tile, limited by the number of registers, for the widest SIMD and for others.
const WIDE_VECTORS: usize = 4;
const VECTORS: usize = 3;

/// Number of floats to copy before the sums of several samples start. A load soon after stores to parts of the same
/// address stalls.
const BLOCK: usize = 4096;

/// Maximum number of floats of a sample's copies, so that they stay in the cache.
const MOST_COPIED: usize = 1 << 16;

/// Returns true if this method is faster. That is so if its lanes are fuller than with outputs in the lanes, or if
/// transposing those would cost more than the copies. Both methods take about one cycle per register of products.
pub(super) fn suits(windows: &Windows) -> bool {
    let Windows { channels, outputs, output, kernel, stride, .. } = *windows;
    let (positions, taps) = (output[0] * output[1], windows.taps());
    let copied = channels * kernel[1] * lines(windows) * output[1];
    // Cycles per register of sums, to transpose it and to copy it.
    const TURN: usize = 8;
    const COPY: usize = 3;
    let of_outputs = positions * outputs.div_ceil(MAX_LANES) * (taps + TURN);
    let products = positions.div_ceil(MAX_LANES) * outputs.next_multiple_of(OUTPUTS) * taps;
    stride == [1, 1]
        && outputs >= OUTPUTS
        && positions >= MAX_LANES
        && copied <= MOST_COPIED
        && products + products / 16 + COPY * copied.div_ceil(MAX_LANES) < of_outputs
}

/// Number of lines in a copy.
fn lines(windows: &Windows) -> usize {
    windows.output[0] + (windows.kernel[0] - 1) * windows.dilation[0]
}

/// Shifted convolution, with memory for a block of samples, and for the kernels of the last call.
#[derive(Debug)]
pub struct ShiftedConvolution {
    windows: Windows,
    transposed: bool,
    /// Weights of the last call.
    weights: Vec<f32>,
    /// Kernels as `[tiles of outputs, taps, OUTPUTS]`.
    kernels: Vec<f32>,
    /// Offset of each tap's plane in the copies.
    offsets: Vec<usize>,
    /// Number of lines in a copy.
    lines: usize,
    /// Copies of the samples of a block, `[C, columns of the kernel, lines, columns of outputs]` each.
    copies: Vec<f32>,
    /// Number of floats in a sample's copies.
    copied: usize,
}

impl ShiftedConvolution {
    /// Convolution over `windows`. With `transposed`, it computes the gradient of a convolution from outputs (here the
    /// channels) to inputs. The weights `[C, O, *kernel]` are those of that convolution.
    pub(super) fn new(windows: Windows, transposed: bool) -> Self {
        let Windows { channels, output, kernel, dilation, .. } = windows;
        let lines = lines(&windows);
        let offset = move |channel, k, j| ((channel * kernel[1] + j) * lines + k * dilation[0]) * output[1];
        let taps = move |channel| (0..kernel[0]).flat_map(move |k| (0..kernel[1]).map(move |j| offset(channel, k, j)));
        let copied = channels * kernel[1] * lines * output[1];
        Self {
            windows,
            transposed,
            weights: vec![],
            kernels: vec![],
            offsets: (0..channels).flat_map(taps).collect(),
            lines,
            copies: vec![0.0; copied * (BLOCK / copied).max(1)],
            copied,
        }
    }

    /// Transposes the kernels, unless they are those of the last call.
    #[inline(always)]
    fn take_weights(&mut self, weights: &[f32]) {
        if !take(&mut self.weights, weights) {
            return;
        }
        let Windows { channels, outputs, kernel, .. } = self.windows;
        let of_kernel = kernel[0] * kernel[1];
        self.kernels.clear();
        for first in tiles(outputs) {
            for (channel, tap) in (0..channels).flat_map(|channel| (0..of_kernel).map(move |tap| (channel, tap))) {
                let place = |output| self.windows.weight(self.transposed, [channel, output], tap);
                self.kernels.extend((first..first + OUTPUTS).map(|output| weights[place(output)]));
            }
        }
    }

    /// Copies a sample's planes. Padding in the copies stays zero.
    #[inline(always)]
    fn copy(&self, x: &[f32], copies: &mut [f32]) {
        let Windows { input, output, kernel, dilation, before, .. } = self.windows;
        let copies = copies.chunks_exact_mut(self.lines * output[1]);
        let planes = x.chunks_exact(input[0] * input[1]).flat_map(|plane| (0..kernel[1]).map(move |j| (plane, j)));
        for ((plane, j), copy) in planes.zip(copies) {
            let shift = j * dilation[1];
            let [from, into] = [shift.saturating_sub(before[1]), before[1].saturating_sub(shift)];
            let count = input[1].saturating_sub(from).min(output[1].saturating_sub(into));
            let lines = if count > 0 { input[0].min(self.lines.saturating_sub(before[0])) } else { 0 };
            if lines == 0 {
                continue;
            }
            let copy = &mut copy[before[0] * output[1]..];
            if input[1] != output[1] {
                copy_lines([lines, count], (&plane[from..], input[1]), (&mut copy[into..], output[1]));
                continue;
            }
            // Copies all lines at once, then restores the padding that wrapped around their ends.
            let len = lines * input[1];
            copy[into..len - from].copy_from_slice(&plane[from..len - into]);
            for column in (0..into).chain(count..count + from) {
                for line in copy[..len].chunks_exact_mut(output[1]) {
                    line[column] = 0.0;
                }
            }
        }
    }

    /// Sums `N` registers of positions from `position` on, for the outputs of a tile from `first` on.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(
        &self,
        simd: S,
        copies: &[f32],
        position: usize,
        [tile, first]: [usize; 2],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        let (wide, taps) = (N * S::F32_LANES, self.offsets.len());
        let mut sums = [[simd.splat_f32s(0.0); N]; OUTPUTS];
        let kernels = self.kernels[tile * taps * OUTPUTS..].as_chunks::<OUTPUTS>().0;
        let copies = &copies[position..];
        for (kernel, offset) in kernels.iter().zip(&self.offsets) {
            let x = S::as_simd_f32s(&copies[*offset..][..wide]).0;
            let x: [S::f32s; N] = *x.first_chunk().expect("a tile's vectors");
            for o in 0..OUTPUTS {
                let weight = simd.splat_f32s(kernel[o]);
                for n in 0..N {
                    sums[o][n] = simd.mul_add_e_f32s(weight, x[n], sums[o][n]);
                }
            }
        }
        let positions = self.windows.output[0] * self.windows.output[1];
        for o in 0..OUTPUTS {
            let into = S::as_mut_simd_f32s(&mut y[(first + o) * positions + position..][..wide]).0;
            let bias = simd.splat_f32s(bias.map_or(0.0, |bias| bias[first + o]));
            for n in 0..N {
                into[n] = simd.add_f32s(sums[o][n], bias);
            }
        }
    }

    /// Computes a sample from its copies.
    #[inline(always)]
    fn sample<S: Simd>(&self, simd: S, copies: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let Windows { outputs, output, .. } = self.windows;
        let positions = output[0] * output[1];
        let most = if S::F32_LANES >= MAX_LANES { WIDE_VECTORS } else { VECTORS };
        let mut done = 0;
        while done < positions {
            let vectors = (positions - done).div_ceil(S::F32_LANES).min(positions / S::F32_LANES).min(most);
            // The last tile ends with the plane.
            let position = done.min(positions - vectors * S::F32_LANES);
            for tile in tiles(outputs).enumerate() {
                let tile = tile.into();
                match vectors {
                    1 => self.tile::<S, 1>(simd, copies, position, tile, bias, y),
                    2 => self.tile::<S, 2>(simd, copies, position, tile, bias, y),
                    3 => self.tile::<S, 3>(simd, copies, position, tile, bias, y),
                    _ => self.tile::<S, WIDE_VECTORS>(simd, copies, position, tile, bias, y),
                }
            }
            done = position + vectors * S::F32_LANES;
        }
    }
}

/// First output of each tile. The last tile ends with the outputs.
fn tiles(outputs: usize) -> impl Iterator<Item = usize> {
    (0..outputs).step_by(OUTPUTS).map(move |first| first.min(outputs - OUTPUTS))
}

impl SimdKernel for ShiftedConvolution {
    #[inline(always)]
    fn work<S: Simd>(SimdCall { of, x, weights, bias, y }: SimdCall<'_, Self>, simd: S) {
        of.take_weights(weights);
        let [len, made] = of.windows.lens();
        let mut copies = std::mem::take(&mut of.copies);
        let samples = copies.len() / of.copied;
        for (x, y) in x.chunks(samples * len).zip(y.chunks_mut(samples * made)) {
            for (x, copies) in x.chunks_exact(len).zip(copies.chunks_exact_mut(of.copied)) {
                of.copy(x, copies);
            }
            for (copies, y) in copies.chunks_exact(of.copied).zip(y.chunks_exact_mut(made)) {
                of.sample(simd, copies, bias, y);
            }
        }
        of.copies = copies;
    }
}

#[cfg(test)]
mod tests {
    use super::super::direct;
    use super::super::tests::{Convolves, convolutions_are_their_definition, samples_keep_to_themselves};
    use super::*;
    use crate::simd::testing::{Width, numbers};

    /// Lines of equal length, longer and shorter, and a single line. Every padding, also of more than a line, and
    /// dilations. Tiles that end with the plane and with the outputs.
    fn cases() -> Vec<Windows> {
        [
            ([1, 16], [8, 8], [[1, 1], [1, 1]], [[3, 3], [1, 1]]),
            ([3, 6], [28, 28], [[2, 2], [2, 2]], [[5, 5], [1, 1]]),
            ([2, 4], [5, 7], [[0, 0], [0, 0]], [[2, 3], [1, 1]]),
            ([2, 9], [3, 37], [[2, 0], [0, 2]], [[3, 3], [1, 1]]),
            ([1, 5], [4, 3], [[6, 6], [4, 4]], [[3, 3], [1, 1]]),
            ([2, 7], [6, 4], [[3, 2], [1, 7]], [[2, 2], [3, 9]]),
            ([2, 5], [2, 4], [[1, 5], [1, 5]], [[1, 3], [1, 5]]),
            ([3, 11], [1, 40], [[0, 0], [2, 1]], [[1, 3], [1, 2]]),
            ([2, 6], [4, 9], [[0, 0], [20, 0]], [[1, 2], [1, 1]]),
            ([6, 8], [6, 11], [[0, 0], [0, 0]], [[1, 1], [1, 1]]),
            ([1, 4], [3, 90], [[0, 0], [1, 0]], [[1, 3], [1, 1]]),
            ([70, 4], [4, 4], [[1, 1], [1, 1]], [[3, 3], [1, 1]]),
        ]
        .map(|(between, input, pads, [kernel, dilation])| {
            Windows::new(between, input, pads, [kernel, [1, 1], dilation]).unwrap()
        })
        .into()
    }

    impl Convolves for ShiftedConvolution {
        fn over(windows: Windows, transposed: bool) -> Self {
            Self::new(windows, transposed)
        }
    }

    // The convolution equals its definition for every SIMD width.
    #[test]
    fn matches_definition_at_every_width() {
        convolutions_are_their_definition::<ShiftedConvolution>(cases());
    }

    // Neither other samples nor previous calls change the bits of a sample.
    #[test]
    fn sample_bits_depend_on_own_sample() {
        samples_keep_to_themselves::<ShiftedConvolution>(cases());
    }

    // The bits are those of the direct convolution.
    #[test]
    fn bits_match_direct_convolution() {
        for windows in cases() {
            let [len, made] = windows.lens();
            let [x, weights, bias] = [(2 * len, 1), (windows.outputs * windows.taps(), 2), (windows.outputs, 3)]
                .map(|(count, seed)| numbers(count, seed));
            let bits = |y: Vec<f32>| y.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let mut want = vec![f32::NAN; 2 * made];
            direct::DirectConvolution::over(windows, false).run(&x, &weights, Some(&bias), &mut want);
            let want = bits(want);
            for width in [Width::Dispatched, Width::Eight] {
                let mut y = vec![f32::NAN; 2 * made];
                let of = &mut ShiftedConvolution::over(windows, false);
                if width.run(SimdCall { of, x: &x, weights: &weights, bias: Some(&bias), y: &mut y }) {
                    assert_eq!(bits(y), want, "{windows:?}, {width:?}");
                }
            }
        }
    }
}
