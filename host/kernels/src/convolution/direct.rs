//! Convolutions by definition, `Y[o, y, x] = Σ_{c, k, j} W[o, c, k, j] · X[c, s y + d k − p, t x + e j − q] + B[o]`.
//!
//! Outputs are in the lanes, so few channels, large windows and strides add no cost, and nothing is unfolded. A tile of
//! columns by outputs is summed in registers.
//!
//! Memory: the kernels, in the original layout and with the outputs innermost, a padded sample if there is padding, and
//! a line of outputs.
//!
//! Numerics: each entry is one running sum over channels and taps in order, with fused multiply-adds if the processor
//! supports them. Its bits depend on the sample, the parameters and the kind of processor, but not on the SIMD width.

use super::windows::{Windows, copy_lines, take};
use crate::simd::{Aligned, MAX_LANES, SimdCall, SimdKernel, turn};
use pulp::Simd;
use std::ops::Range;

/// Columns of the widest tile.
const COLUMNS: usize = 14;

/// Columns of a tile with two registers of outputs, limited by the number of registers, for the widest SIMD and for
/// others.
const WIDE_COLUMNS: usize = 12;
const FEWER_COLUMNS: usize = 6;

/// Maximum stride along a line.
pub(super) const MOST_STRIDE: usize = 2;

/// Direct convolution, with memory for a sample, and for the kernels of the last call.
#[derive(Debug)]
pub struct DirectConvolution {
    windows: Windows,
    transposed: bool,
    /// Weights of the last call.
    weights: Vec<f32>,
    /// Kernels as `[blocks of outputs, taps, outputs of a block]`.
    kernels: Aligned,
    /// Offset of each tap in a sample.
    offsets: Vec<usize>,
    /// Range of a channel's taps with at least part of their line outside the padding, for each line of outputs.
    within: Vec<Range<usize>>,
    /// Lines and columns of the planes that the windows read: padded, unless the windows stay inside the input.
    plane: [usize; 2],
    /// Padded planes, `[C, *plane]`.
    padded: Vec<f32>,
    /// Line of outputs, `[columns, outputs of a block]`.
    line: Vec<f32>,
}

impl DirectConvolution {
    /// Convolution over `windows`. With `transposed`, it computes the gradient of a convolution from outputs (here the
    /// channels) to inputs. The weights `[C, O, *kernel]` are those of that convolution.
    pub(super) fn new(windows: Windows, transposed: bool) -> Self {
        let windows = flat(windows);
        let Windows { channels, kernel, dilation, .. } = windows;
        let reach = [0, 1].map(|i| (windows.output[i] - 1) * windows.stride[i] + (kernel[i] - 1) * dilation[i] + 1);
        let stay = (0..2).all(|i| windows.before[i] == 0 && reach[i] <= windows.input[i]);
        let plane = if stay { windows.input } else { reach };
        let line = move |channel, k| (channel * plane[0] + k * dilation[0]) * plane[1];
        let taps = move |channel| {
            (0..kernel[0]).flat_map(move |k| (0..kernel[1]).map(move |j| line(channel, k) + j * dilation[1]))
        };
        let within = |line: usize| {
            let until =
                |place: usize| place.saturating_sub(line * windows.stride[0]).div_ceil(dilation[0]).min(kernel[0]);
            until(windows.before[0]) * kernel[1]..until(windows.before[0] + windows.input[0]) * kernel[1]
        };
        Self {
            windows,
            transposed,
            weights: vec![],
            kernels: Aligned::default(),
            within: (0..windows.output[0]).map(within).collect(),
            offsets: (0..channels).flat_map(taps).collect(),
            plane,
            padded: if stay { vec![] } else { vec![0.0; channels * plane[0] * plane[1]] },
            line: vec![0.0; windows.output[1] * 2 * MAX_LANES],
        }
    }

    /// Transposes the kernels, unless they are those of the last call.
    #[inline(always)]
    fn take_weights<S: Simd>(&mut self, weights: &[f32]) {
        if !take(&mut self.weights, weights) {
            return;
        }
        let Windows { channels, outputs, kernel, .. } = self.windows;
        let (taps, of_kernel) = (self.windows.taps(), kernel[0] * kernel[1]);
        let len = outputs.next_multiple_of(S::F32_LANES) * taps;
        for (block, kernels) in self.kernels.of_len(len).chunks_mut(2 * S::F32_LANES * taps).enumerate() {
            let (first, wide) = (block * 2 * S::F32_LANES, kernels.len() / taps);
            for output in first..outputs.min(first + wide) {
                for channel in 0..channels {
                    for tap in 0..of_kernel {
                        let weight = weights[self.windows.weight(self.transposed, [channel, output], tap)];
                        kernels[(channel * of_kernel + tap) * wide + output - first] = weight;
                    }
                }
            }
        }
    }

    /// Copies a sample into its padding, if it has any.
    #[inline(always)]
    fn pad(&self, x: &[f32], padded: &mut [f32]) {
        let (Windows { input, before, .. }, [lines, columns]) = (self.windows, self.plane);
        let copied = [lines.saturating_sub(before[0]), columns.saturating_sub(before[1])];
        let copied = [input[0].min(copied[0]), input[1].min(copied[1])];
        if copied.contains(&0) {
            return;
        }
        for (from, into) in x.chunks_exact(input[0] * input[1]).zip(padded.chunks_exact_mut(lines * columns)) {
            copy_lines(copied, (from, input[1]), (&mut into[before[0] * columns + before[1]..], columns));
        }
    }

    /// Sums `M` columns of `N` registers of outputs from `first` on, over the taps `within` each channel's.
    #[inline(always)]
    fn tile<S: Simd, const STRIDE: usize, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        x: &[f32],
        column: usize,
        [first, of_kernel]: [usize; 2],
        within: Range<usize>,
        bias: &[f32],
    ) {
        let wide = N * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        let taps = self.offsets.len();
        for channel in (0..taps).step_by(of_kernel) {
            let kernels = self.kernels[first * taps + (channel + within.start) * wide..].chunks_exact(wide);
            let offsets = &self.offsets[channel + within.start..channel + within.end];
            for (kernel, offset) in kernels.zip(offsets) {
                let vectors: [S::f32s; N] = *S::as_simd_f32s(kernel).0.first_chunk().expect("a block's outputs");
                let x = &x[*offset..][..(M - 1) * STRIDE + 1];
                for m in 0..M {
                    let x = simd.splat_f32s(x[m * STRIDE]);
                    for n in 0..N {
                        sums[m][n] = simd.mul_add_e_f32s(x, vectors[n], sums[m][n]);
                    }
                }
            }
        }
        let bias: [S::f32s; N] = *S::as_simd_f32s(bias).0.first_chunk().expect("a block's outputs");
        let line = S::as_mut_simd_f32s(&mut self.line[column * wide..][..M * wide]).0;
        for m in 0..M {
            for n in 0..N {
                line[m * N + n] = simd.add_f32s(sums[m][n], bias[n]);
            }
        }
    }

    /// Computes the lines of `N` registers of outputs from `first` on.
    #[inline(always)]
    fn block<S: Simd, const STRIDE: usize, const N: usize>(
        &mut self,
        simd: S,
        x: &[f32],
        first: usize,
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        let Windows { outputs, output: [lines, columns], kernel, stride, .. } = self.windows;
        let wide = N * S::F32_LANES;
        let count = wide.min(outputs - first);
        let mut biases = [0.0; 2 * MAX_LANES];
        if let Some(bias) = bias {
            biases[..count].copy_from_slice(&bias[first..][..count]);
        }
        let biases = &biases[..wide];
        let kernels = [first, kernel[0] * kernel[1]];
        let most = match N {
            1 => COLUMNS,
            _ if S::F32_LANES >= MAX_LANES => WIDE_COLUMNS,
            _ => FEWER_COLUMNS,
        };
        let across = columns.div_ceil(columns.div_ceil(most));
        for line in 0..lines {
            let x = &x[line * stride[0] * self.plane[1]..];
            let within = self.within[line].clone();
            let mut done = 0;
            while done < columns {
                // The last tile ends with the line.
                let column = done.min(columns - across);
                let x = &x[column * STRIDE..];
                macro_rules! of_columns {
                    ($($m:literal)*) => {
                        match across {
                            $($m => self.tile::<S, STRIDE, $m, N>(simd, x, column, kernels, within.clone(), biases),)*
                            _ => self.tile::<S, STRIDE, COLUMNS, N>(simd, x, column, kernels, within.clone(), biases),
                        }
                    };
                }
                of_columns!(1 2 3 4 5 6 7 8 9 10 11 12 13);
                done += across;
            }
            let y = &mut y[(first * lines + line) * columns..];
            turn(&self.line, y, [columns, count], [wide, lines * columns]);
        }
    }

    /// Computes a sample, as the windows read it.
    #[inline(always)]
    fn sample<S: Simd, const STRIDE: usize>(&mut self, simd: S, x: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let outputs = self.windows.outputs;
        for first in (0..outputs).step_by(2 * S::F32_LANES) {
            if outputs - first > S::F32_LANES {
                self.block::<S, STRIDE, 2>(simd, x, first, bias, y);
            } else {
                self.block::<S, STRIDE, 1>(simd, x, first, bias, y);
            }
        }
    }
}

/// The same windows over one line, if they are adjacent points.
fn flat(windows: Windows) -> Windows {
    let Windows { input, output, kernel, stride, .. } = windows;
    if kernel != [1, 1] || stride != [1, 1] || output != input {
        return windows;
    }
    let line = [1, input[0] * input[1]];
    Windows { input: line, output: line, ..windows }
}

impl SimdKernel for DirectConvolution {
    #[inline(always)]
    fn work<S: Simd>(SimdCall { of, x, weights, bias, y }: SimdCall<'_, Self>, simd: S) {
        of.take_weights::<S>(weights);
        let [len, made] = of.windows.lens();
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(made)) {
            let mut padded = std::mem::take(&mut of.padded);
            of.pad(x, &mut padded);
            let x = if padded.is_empty() { x } else { &padded };
            match of.windows.stride[1] {
                1 => of.sample::<S, 1>(simd, x, bias, y),
                _ => of.sample::<S, MOST_STRIDE>(simd, x, bias, y),
            }
            of.padded = padded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Convolves, convolutions_are_their_definition, plain_cases, samples_keep_to_themselves};
    use super::*;

    /// 3×3 windows, and kernels of all shapes, strides, dilations, lines, more columns and outputs than a tile, and
    /// single outputs.
    fn cases() -> Vec<Windows> {
        let others = [
            ([1, 16], [28, 28], [[3, 3], [3, 3]], [[8, 8], [2, 2], [1, 1]]),
            ([3, 7], [13, 12], [[0, 0], [0, 0]], [[4, 4], [2, 2], [1, 1]]),
            ([2, 33], [6, 9], [[1, 0], [0, 2]], [[2, 3], [3, 2], [1, 1]]),
            ([3, 40], [9, 31], [[0, 4], [2, 1]], [[3, 5], [1, 1], [2, 3]]),
            ([5, 4], [1, 29], [[0, 1], [0, 1]], [[1, 3], [1, 1], [1, 1]]),
            ([6, 18], [7, 5], [[0, 0], [0, 0]], [[1, 1], [1, 1], [1, 1]]),
            ([6, 18], [7, 5], [[0, 0], [0, 0]], [[1, 1], [2, 2], [1, 1]]),
            ([2, 5], [4, 4], [[0, 0], [0, 0]], [[2, 2], [2, 2], [1, 1]]),
            ([3, 4], [2, 2], [[1, 1], [0, 0]], [[1, 1], [2, 2], [1, 1]]),
        ];
        let others = others.map(|(between, input, pads, steps)| Windows::new(between, input, pads, steps).unwrap());
        plain_cases().into_iter().chain(others).collect()
    }

    impl Convolves for DirectConvolution {
        fn over(windows: Windows, transposed: bool) -> Self {
            Self::new(windows, transposed)
        }
    }

    // The convolution equals its definition for every SIMD width.
    #[test]
    fn matches_definition_at_every_width() {
        convolutions_are_their_definition::<DirectConvolution>(cases());
    }

    // Neither other samples nor previous calls change the bits of a sample.
    #[test]
    fn sample_bits_depend_on_own_sample() {
        samples_keep_to_themselves::<DirectConvolution>(cases());
    }
}
