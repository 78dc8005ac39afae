//! Definitions of the convolutions, and properties of every method.

use super::Windows;
use crate::simd::testing::{Width, check, numbers};
use crate::simd::{SimdCall, SimdKernel};

const SAMPLES: usize = 5;

/// Plain 3×3 windows: odd and even planes, thin planes, a plane wider than a block, and every padding.
pub(super) fn plain_cases() -> Vec<Windows> {
    [
        ([3, 5], [7, 6], [[1, 1], [1, 1]]),
        ([16, 17], [8, 8], [[1, 1], [1, 1]]),
        ([17, 3], [5, 11], [[0, 2], [1, 0]]),
        ([2, 3], [3, 110], [[2, 0], [0, 2]]),
        ([1, 1], [3, 3], [[0, 0], [0, 0]]),
        ([4, 9], [1, 1], [[1, 1], [1, 1]]),
        ([5, 8], [14, 14], [[1, 1], [1, 1]]),
        ([49, 4], [4, 5], [[2, 2], [2, 2]]),
        ([1, 2], [2, 60], [[1, 1], [0, 1]]),
    ]
    .map(|(between, input, pads)| Windows::new(between, input, pads, [[3, 3], [1, 1], [1, 1]]).unwrap())
    .into()
}

/// Input of one plane under tap `(k, j)` of the window at `(y, x)`.
pub(super) fn under(windows: &Windows, plane: &[f32], at: [usize; 2], tap: [usize; 2]) -> f64 {
    let inside = |i: usize| {
        let at = at[i] * windows.stride[i] + tap[i] * windows.dilation[i];
        at.checked_sub(windows.before[i]).filter(|at| *at < windows.input[i])
    };
    match (inside(0), inside(1)) {
        (Some(line), Some(column)) => f64::from(plane[line * windows.input[1] + column]),
        _ => 0.0,
    }
}

pub(super) fn taps(windows: &Windows) -> impl Iterator<Item = [usize; 2]> + use<> {
    pairs(windows.kernel)
}

pub(super) fn positions(windows: &Windows) -> impl Iterator<Item = [usize; 2]> + use<> {
    pairs(windows.output)
}

fn pairs([lines, columns]: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    (0..lines).flat_map(move |line| (0..columns).map(move |column| [line, column]))
}

/// Definition of the convolution, in f64.
fn convolved(windows: &Windows, transposed: bool, x: &[f32], weights: &[f32], bias: &[f32]) -> Vec<f64> {
    let Windows { channels, outputs, input, kernel, .. } = *windows;
    let of_kernel = kernel[0] * kernel[1];
    let sample = |x: &[f32]| -> Vec<f64> {
        let entry = |output: usize, at: [usize; 2]| {
            let products = x.chunks(input[0] * input[1]).enumerate().flat_map(|(channel, plane)| {
                taps(windows).enumerate().map(move |(tap, place)| {
                    let weight = if transposed {
                        of_kernel * (channel * outputs + output) + of_kernel - 1 - tap
                    } else {
                        of_kernel * (output * channels + channel) + tap
                    };
                    f64::from(weights[weight]) * under(windows, plane, at, place)
                })
            });
            f64::from(bias[output]) + products.sum::<f64>()
        };
        (0..outputs).flat_map(|output| positions(windows).map(move |at| entry(output, at))).collect()
    };
    x.chunks(windows.lens()[0]).flat_map(sample).collect()
}

/// Convolution by one of the methods.
pub(super) trait Convolves: SimdKernel {
    fn over(windows: Windows, transposed: bool) -> Self;
}

pub(super) fn convolutions_are_their_definition<C: Convolves>(cases: Vec<Windows>) {
    for windows in cases {
        let Windows { channels, outputs, .. } = windows;
        for transposed in [false, true] {
            let [len, made] = windows.lens();
            let (x, bias) = (numbers(SAMPLES * len, 1), numbers(outputs, 3));
            let weights = numbers(outputs * windows.taps(), 2);
            let want = convolved(&windows, transposed, &x, &weights, &bias);
            for width in [Width::Dispatched, Width::Eight, Width::One] {
                let mut y = vec![f32::NAN; SAMPLES * made];
                let of = &mut C::over(windows, transposed);
                if width.run(SimdCall { of, x: &x, weights: &weights, bias: Some(&bias), y: &mut y }) {
                    let largest = channels * (windows.kernel[0] * windows.kernel[1]).div_ceil(9);
                    check(&format!("{windows:?}, {width:?}"), &y, &want, largest);
                }
            }
        }
    }
}

pub(super) fn samples_keep_to_themselves<C: Convolves>(cases: Vec<Windows>) {
    for windows in cases {
        let [len, made] = windows.lens();
        let x = numbers(SAMPLES * len, 4);
        let [weights, before] = [5, 6].map(|seed| numbers(windows.outputs * windows.taps(), seed));
        let run = |of: &mut C, x: &[f32], weights: &[f32], y: &mut [f32]| {
            of.run(x, weights, None, y);
        };
        let mut used = C::over(windows, false);
        let (mut all, mut alone) = (vec![0.0; SAMPLES * made], vec![0.0; made]);
        run(&mut used, &x, &before, &mut all);
        run(&mut used, &vec![f32::NAN; SAMPLES * len], &weights, &mut all);
        run(&mut used, &x, &weights, &mut all);
        for (x, y) in x.chunks(len).zip(all.chunks(made)) {
            run(&mut C::over(windows, false), x, &weights, &mut alone);
            assert!(y.iter().zip(&alone).all(|(y, alone)| y.to_bits() == alone.to_bits()), "{windows:?}");
        }
        // A non-finite sample does not affect others.
        let mut spoilt = x.clone();
        spoilt[len..2 * len].fill(f32::INFINITY);
        let mut y = vec![0.0; SAMPLES * made];
        run(&mut used, &spoilt, &weights, &mut y);
        let others = |y: &[f32]| [&y[..made], &y[2 * made..]].concat();
        assert_eq!(others(&y), others(&all));
    }
}
