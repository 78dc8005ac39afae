//! One sample's gradient of a kernel: `dW[o, c, k, j] = Σ_{y, x} dY[o, y, x] · X[c, y + k − p, x + j − p]`.
//!
//! Channels lie side by side in the vectors, so that tiles are summed one after the other: each entry is a running sum over the tiles in
//! row-major order.
//!
//! Memory: a sample's input and output gradient with their channels innermost, and both at their points: 5 times as much each.

use super::super::windows::Windows;
use super::{POINTS, TILE, VECTORS, WIDE_TILE, at_points, column_of, load, store, three, tiles};
use crate::simd::{MAX_LANES, SIDE, turn};
use pulp::{Arch, Simd, WithSimd};

/// Weights of a kernel: two squares' and one.
const TAPS: usize = 2 * SIDE + 1;

/// With memory for a sample.
#[derive(Clone, Debug)]
pub struct KernelGrad {
    windows: Windows,
    /// Channels and outputs, rounded up to vectors.
    wide: usize,
    tall: usize,
    /// `[lines, columns, wide]` of the padded input, zero where it is padding.
    x: Vec<f32>,
    /// `[lines, columns, tall]` of whole tiles, zero beyond the outputs.
    left: Vec<f32>,
    /// `[POINTS, tiles, wide]` and `[POINTS, tiles, tall]`, a cache line after each point's.
    x_points: Vec<f32>,
    left_points: Vec<f32>,
    /// `[POINTS, outputs of a tile, channels of one]`.
    sums: Vec<f32>,
    /// `[outputs of a tile, TAPS, wide]`.
    taps: Vec<f32>,
    vectors: Arch,
}

impl KernelGrad {
    /// Of windows that [`suits`](super::suits) accepts.
    pub fn new(windows: Windows) -> Self {
        let (wide, tall) = (windows.channels.next_multiple_of(MAX_LANES), windows.outputs.next_multiple_of(MAX_LANES));
        let [lines, columns] = tiles(&windows);
        let tiles = lines * columns;
        Self {
            windows,
            wide,
            tall,
            x: vec![0.0; (2 * lines + 2) * (2 * columns + 2) * wide],
            left: vec![0.0; 4 * tiles * tall],
            x_points: vec![0.0; POINTS * (tiles * wide + MAX_LANES)],
            left_points: vec![0.0; POINTS * (tiles * tall + MAX_LANES)],
            sums: vec![0.0; POINTS * WIDE_TILE * VECTORS * MAX_LANES],
            taps: vec![0.0; WIDE_TILE * TAPS * wide],
            vectors: Arch::new(),
        }
    }

    /// Writes the gradient `[O, C, 3, 3]` of a sample with the output gradient `left` `[O, *output]` and the input `x` `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        let vectors = self.vectors;
        vectors.dispatch(Write { of: self, left, x, grad });
    }

    /// Transforms all tiles.
    #[inline(always)]
    fn transform<S: Simd>(&mut self, simd: S) {
        let (wide, tall) = (self.wide, self.tall);
        let [lines, columns] = tiles(&self.windows);
        let (zero, half) = (simd.splat_f32s(0.0), simd.splat_f32s(0.5));
        let apart = lines * columns * wide + MAX_LANES;
        let apart_left = lines * columns * tall + MAX_LANES;
        for (line, column) in (0..lines).flat_map(|line| (0..columns).map(move |column| (line, column))) {
            let place = line * columns + column;
            for channel in (0..wide).step_by(S::F32_LANES) {
                let mut tile = [[zero; 4]; 4];
                for (i, tile) in tile.iter_mut().enumerate() {
                    let from = ((2 * line + i) * (2 * columns + 2) + 2 * column) * wide + channel;
                    let row = &self.x[from..][..3 * wide + S::F32_LANES];
                    let row =
                        [load::<S>(row, 0), load::<S>(row, wide), load::<S>(row, 2 * wide), load::<S>(row, 3 * wide)];
                    *tile = at_points(simd, row);
                }
                for j in 0..4 {
                    let points = at_points(simd, column_of(&tile, j));
                    for (i, point) in points.into_iter().enumerate() {
                        let into = (4 * i + j) * apart + place * wide + channel;
                        store(simd, &mut self.x_points[into..][..S::F32_LANES], point);
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
                for j in 0..4 {
                    let points = left_at_points(simd, half, column_of(&tile, j));
                    for (i, point) in points.into_iter().enumerate() {
                        let into = (4 * i + j) * apart_left + place * tall + output;
                        store(simd, &mut self.left_points[into..][..S::F32_LANES], point);
                    }
                }
            }
        }
    }

    /// Sums the products of `M` outputs with `N` vectors of channels, and writes their taps.
    #[inline(always)]
    fn multiply<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, output: usize, channel: usize) {
        let (wide, tall, across) = (self.wide, self.tall, N * S::F32_LANES);
        let [lines, columns] = tiles(&self.windows);
        let tiles = lines * columns;
        let points = self.x_points.chunks_exact(tiles * wide + MAX_LANES);
        let points = points.zip(self.left_points.chunks_exact(tiles * tall + MAX_LANES));
        for ((x, left), into) in points.zip(self.sums.chunks_exact_mut(M * across)) {
            let mut sums = [[simd.splat_f32s(0.0); N]; M];
            let (x, left) = (x[..tiles * wide].chunks_exact(wide), left[..tiles * tall].chunks_exact(tall));
            for (x, left) in x.zip(left) {
                let (vectors, _) = S::as_simd_f32s(&x[channel..][..across]);
                let vectors: [S::f32s; N] = std::array::from_fn(|n| vectors[n]);
                let left: &[f32; M] = left[output..][..M].try_into().expect("a tile's outputs");
                for (sums, left) in sums.iter_mut().zip(left) {
                    let left = simd.splat_f32s(*left);
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = simd.mul_add_e_f32s(left, vector, *sum);
                    }
                }
            }
            for (sums, into) in sums.iter().zip(into.chunks_exact_mut(across)) {
                S::as_mut_simd_f32s(into).0.copy_from_slice(sums);
            }
        }
        let zero = simd.splat_f32s(0.0);
        for (m, at) in (0..M).flat_map(|m| (0..across).step_by(S::F32_LANES).map(move |at| (m, at))) {
            let mut sums = [[zero; 3]; 4];
            for (i, sums) in sums.iter_mut().enumerate() {
                let mut points = [zero; 4];
                for (j, point) in points.iter_mut().enumerate() {
                    *point = load::<S>(&self.sums, ((4 * i + j) * M + m) * across + at);
                }
                *sums = three(simd, points);
            }
            for j in 0..3 {
                let taps = three(simd, column_of(&sums, j));
                for (i, tap) in taps.into_iter().enumerate() {
                    let into = (m * TAPS + 3 * i + j) * wide + channel + at;
                    store(simd, &mut self.taps[into..][..S::F32_LANES], tap);
                }
            }
        }
    }

    /// All tiles, of `M` outputs each.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize>(&mut self, simd: S, grad: &mut [f32]) {
        let (wide, channels) = (self.wide, self.windows.channels);
        for (index, grad) in grad.chunks_mut(M * TAPS * channels).enumerate() {
            let (mut at, end) = (0, wide / S::F32_LANES);
            while at < end {
                // Four as two and two: a lone vector keeps no processor busy.
                let count = if end - at == VECTORS + 1 { VECTORS - 1 } else { (end - at).min(VECTORS) };
                match count {
                    1 => self.multiply::<S, M, 1>(simd, index * M, at * S::F32_LANES),
                    2 => self.multiply::<S, M, 2>(simd, index * M, at * S::F32_LANES),
                    _ => self.multiply::<S, M, VECTORS>(simd, index * M, at * S::F32_LANES),
                }
                at += count;
            }
            let taps = self.taps.chunks_exact(TAPS * wide);
            for (grad, taps) in grad.chunks_exact_mut(TAPS * channels).zip(taps) {
                interleave(taps, wide, grad);
            }
        }
    }
}

/// From `TAPS` lines of channels to channels of taps, in squares that fit registers.
#[inline(always)]
fn interleave(taps: &[f32], wide: usize, grad: &mut [f32]) {
    for (square, grad) in grad.chunks_mut(SIDE * TAPS).enumerate() {
        let mut from = [[0.0; SIDE]; TAPS];
        for (from, line) in from.iter_mut().zip(taps.chunks_exact(wide)) {
            from.copy_from_slice(&line[SIDE * square..][..SIDE]);
        }
        for (channel, grad) in grad.chunks_exact_mut(TAPS).enumerate() {
            for (four, grad) in [0, SIDE].into_iter().zip(grad.chunks_exact_mut(SIDE)) {
                let taps: [f32; SIDE] = std::array::from_fn(|tap| from[four + tap][channel]);
                grad.copy_from_slice(&taps);
            }
            grad[TAPS - 1] = from[TAPS - 1][channel];
        }
    }
}

/// A sample's gradient on its way out.
struct Write<'a> {
    of: &'a mut KernelGrad,
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
        of.transform(simd);
        if S::F32_LANES >= MAX_LANES { of.tiles::<S, WIDE_TILE>(simd, grad) } else { of.tiles::<S, TILE>(simd, grad) }
    }
}

/// Two output gradients at their points.
#[inline(always)]
fn left_at_points<S: Simd>(simd: S, half: S::f32s, [a, b]: [S::f32s; 2]) -> [S::f32s; 4] {
    let (a_half, b_half) = (simd.mul_f32s(a, half), simd.mul_f32s(b, half));
    [a, simd.add_f32s(a_half, b_half), simd.sub_f32s(a_half, b_half), b]
}

/// From planes `[*, lines, columns]` to their entries side by side, `wide` floats apart and lines of `pitch` entries.
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

    /// The definition, in f64.
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
            let mut of = KernelGrad::new(windows);
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
            let (mut used, mut fresh) = (KernelGrad::new(windows), KernelGrad::new(windows));
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
