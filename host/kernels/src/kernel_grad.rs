//! One sample's gradient of a convolution's kernel: `dW[o, c, k, j] = Σ_{y, x} dY[o, y, x] · X[c, s y + d k − p, s x + j − p]`.
//!
//! Nothing is unfolded. Where the channels lie innermost, the taps of a line and their channels are consecutive under every
//! window, so a tile of outputs by floats of a line is summed in registers, over the windows in their order, and the sample
//! stays in the processor's caches.
//!
//! Memory: the padded sample, its output gradient, and the gradient of a few outputs.
//!
//! Numerics: each entry is one running sum over the windows in row-major order, with fused multiply-adds where the processor
//! has them: its bits depend on the sample, the parameters and the kind of processor, not on the vectors' width.

use crate::convolution::Windows;
use pulp::{Arch, Simd, WithSimd};

/// Floats of the widest vectors.
const MAX_LANES: usize = 16;
/// Vectors of the widest tile.
const VECTORS: usize = 3;
/// Outputs of a tile, and of one whose lines fit a vector.
const TILE: usize = 4;
const THIN_TILE: usize = 8;

/// Of a kernel `[O, C, *kernel]`, with memory for a sample.
#[derive(Clone, Debug)]
pub struct KernelGrad {
    channels: usize,
    /// Lines and columns of each.
    input: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    before: [usize; 2],
    dilation: usize,
    /// Lines and columns that the windows reach over.
    reach: [usize; 2],
    /// `[*reach, C]`, zero where it is padding, and room for a tile behind it.
    padded: Vec<f32>,
    /// `[tiles, L, outputs of a tile]`.
    left: Vec<f32>,
    /// `[outputs of a tile, lines of the kernel, columns · C rounded up to vectors]`.
    tile: Vec<f32>,
    vectors: Arch,
}

impl KernelGrad {
    /// Of windows whose taps are next to each other along a line.
    pub fn new(windows: &Windows) -> Self {
        let Windows { channels, outputs, input, output, kernel, stride, dilation: [dilation, _], before } = *windows;
        let reach =
            [(output[0] - 1) * stride[0] + (kernel[0] - 1) * dilation + 1, (output[1] - 1) * stride[1] + kernel[1]];
        let wide = (kernel[1] * channels).next_multiple_of(MAX_LANES);
        Self {
            channels,
            input,
            output,
            kernel,
            stride,
            before,
            dilation,
            reach,
            padded: vec![0.0; reach[0] * reach[1] * channels + VECTORS * MAX_LANES],
            left: vec![0.0; outputs.next_multiple_of(THIN_TILE) * output[0] * output[1]],
            tile: vec![0.0; THIN_TILE * kernel[0] * wide],
            vectors: Arch::new(),
        }
    }

    /// Writes the gradient `[O, C, *kernel]` of a sample with the output gradient `left` `[O, *output]` and the input `x`
    /// `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        self.pad(x);
        // A line that fits narrower vectors leaves most of the widest ones empty.
        #[cfg(target_arch = "x86_64")]
        if self.line() <= MAX_LANES / 2
            && let Some(narrow) = pulp::x86::V3::try_new()
        {
            return Simd::vectorize(narrow, Write { of: self, left, grad });
        }
        self.vectors.dispatch(Write { of: self, left, grad });
    }

    /// Floats under one line of a window.
    fn line(&self) -> usize {
        self.kernel[1] * self.channels
    }

    /// Moves the channels innermost, into the padding.
    fn pad(&mut self, x: &[f32]) {
        let ([lines, columns], [top, start]) = (self.input, self.before);
        let (line, channels) = (self.reach[1] * self.channels, self.channels);
        for (channel, plane) in x.chunks_exact(lines * columns).enumerate() {
            let into = self.padded[..self.reach[0] * line].chunks_exact_mut(line).skip(top);
            for (into, from) in into.zip(plane.chunks_exact(columns)) {
                for (into, x) in into.chunks_exact_mut(channels).skip(start).zip(from) {
                    into[channel] = *x;
                }
            }
        }
    }

    /// The sums of a tile: of `M` outputs by `N` vectors from float `at` of line `tap` of the windows.
    #[inline(always)]
    fn sums<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        left: &[f32],
        tap: usize,
        at: usize,
    ) -> [[S::f32s; N]; M] {
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        let (line, step) = (self.reach[1] * self.channels, self.stride[1] * self.channels);
        let wide = N * S::F32_LANES;
        for (y, left) in left.chunks_exact(self.output[1] * M).enumerate() {
            let start = (y * self.stride[0] + tap * self.dilation) * line + at;
            let windows = &self.padded[start..][..(self.output[1] - 1) * step + wide];
            for (x, left) in left.chunks_exact(M).enumerate() {
                let (vectors, _) = S::as_simd_f32s(&windows[x * step..][..wide]);
                let vectors: [S::f32s; N] = std::array::from_fn(|n| vectors[n]);
                for (sums, left) in sums.iter_mut().zip(left) {
                    let left = simd.splat_f32s(*left);
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = simd.mul_add_e_f32s(left, vector, *sum);
                    }
                }
            }
        }
        sums
    }

    /// Writes such a tile's sums to its memory.
    #[inline(always)]
    fn sum<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, place: usize, tap: usize, at: usize) {
        let positions = self.output[0] * self.output[1];
        let sums = self.sums::<S, M, N>(simd, &self.left[place * M * positions..][..M * positions], tap, at);
        let wide = self.line().next_multiple_of(MAX_LANES);
        for (sums, tile) in sums.iter().zip(self.tile.chunks_exact_mut(self.kernel[0] * wide)) {
            let (tile, _) = S::as_mut_simd_f32s(&mut tile[tap * wide + at..][..N * S::F32_LANES]);
            tile.copy_from_slice(sums);
        }
    }

    /// All tiles, of `M` outputs by at most `vectors` vectors.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize>(&mut self, simd: S, vectors: usize, left: &[f32], grad: &mut [f32]) {
        let positions = self.output[0] * self.output[1];
        let (line, wide, taps) =
            (self.line(), self.line().next_multiple_of(MAX_LANES), self.kernel[0] * self.kernel[1]);
        for (tile, outputs) in self.left.chunks_exact_mut(M * positions).zip(left.chunks(M * positions)) {
            for (output, from) in outputs.chunks_exact(positions).enumerate() {
                for (into, from) in tile.chunks_exact_mut(M).zip(from) {
                    into[output] = *from;
                }
            }
        }
        for (place, grad) in grad.chunks_mut(M * taps * self.channels).enumerate() {
            for tap in 0..self.kernel[0] {
                let mut at = 0;
                while at < line {
                    let count = (line - at).div_ceil(S::F32_LANES).min(vectors);
                    match count {
                        1 => self.sum::<S, M, 1>(simd, place, tap, at),
                        2 => self.sum::<S, M, 2>(simd, place, tap, at),
                        _ => self.sum::<S, M, VECTORS>(simd, place, tap, at),
                    }
                    at += count * S::F32_LANES;
                }
            }
            // From taps by channels to channels by taps.
            let tiles = self.tile.chunks_exact(self.kernel[0] * wide);
            for (tile, grad) in tiles.zip(grad.chunks_exact_mut(taps * self.channels)) {
                let by_tap = tile.chunks_exact(wide).flat_map(|tile| tile[..line].chunks_exact(self.channels));
                for (tap, channels) in by_tap.enumerate() {
                    for (grad, sum) in grad[tap..].iter_mut().step_by(taps).zip(channels) {
                        *grad = *sum;
                    }
                }
            }
        }
    }
}

/// A sample's gradient on its way out.
struct Write<'a> {
    of: &'a mut KernelGrad,
    left: &'a [f32],
    grad: &'a mut [f32],
}

impl WithSimd for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { of, left, grad } = self;
        if of.line() <= S::F32_LANES {
            of.tiles::<S, THIN_TILE>(simd, 1, left, grad);
        } else {
            // As many sums as there are registers for: the widest vectors have twice as many.
            let vectors = if S::F32_LANES >= MAX_LANES { VECTORS } else { VECTORS - 1 };
            of.tiles::<S, TILE>(simd, vectors, left, grad);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::testing::numbers;
    use pulp::Scalar;

    /// Windows over a plane, with uneven paddings too.
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

    /// The definition, in f64: each entry and the sum of its products' magnitudes.
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
            let mut of = KernelGrad::new(&windows);
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
                of.pad(&x);
                Simd::vectorize(Scalar, Write { of: &mut of, left: &left, grad: &mut grad });
                check(&mut grad, "one at a time");
                #[cfg(target_arch = "x86_64")]
                if let Some(narrow) = pulp::x86::V3::try_new() {
                    Simd::vectorize(narrow, Write { of: &mut of, left: &left, grad: &mut grad });
                    check(&mut grad, "of eight");
                }
            }
        }
    }

    #[test]
    fn keeps_nothing_of_the_last_sample() {
        for windows in cases() {
            let (mut used, mut fresh) = (KernelGrad::new(&windows), KernelGrad::new(&windows));
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
