//! Convolutions with a quantised kernel, and their gradient with respect to the image.

use super::{Quantized, QuantizedRows};
use crate::convolution::{KernelStrides, forward_by, transposed_by};
use crate::tile::Lanes;
use crate::window::Window;
use crate::{Error, check};

/// Computes [`forward`](crate::convolution::forward) with a quantised kernel, with the same bits.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, quantized::{self, Quantized}};
///
/// let axis = Axis { input: 3, output: 2, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let weight = Quantized { values: &[1, -1], scales: &[0.5], zeros: &[0], inner: 1 };
/// let mut out = [0.0; 2];
/// quantized::forward::<Narrow>(&window, &[4.0, 2.0, 8.0], &weight, None, &mut out)?;
/// assert_eq!(out, [1.0, -3.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn forward<L: Lanes>(
    window: &Window,
    x: &[f32],
    kernel: &Quantized<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    kernel.check(kernel.values.len())?;
    check(kernel.values.len() == window.kernel_len())?;
    let rows = QuantizedRows { weight: kernel, start: 0, row_stride: window.output_taps(), term_stride: 1 };
    forward_by::<L>(window, x, &rows, bias, out)
}

/// Computes [`transposed`](crate::convolution::transposed) with a quantised kernel, with the same bits.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, convolution::KernelStrides, quantized::{self, Quantized}};
///
/// let axis = Axis { input: 3, output: 2, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let weight = Quantized { values: &[1, -1], scales: &[0.5], zeros: &[0], inner: 1 };
/// let (strides, mut out) = (KernelStrides::onnx(&window), [0.0; 3]);
/// quantized::transposed::<Narrow>(&window, &[2.0, 4.0], &weight, strides, None, &mut out)?;
/// assert_eq!(out, [1.0, 1.0, -2.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn transposed<L: Lanes>(
    window: &Window,
    y: &[f32],
    kernel: &Quantized<'_>,
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    kernel.check(kernel.values.len())?;
    check(kernel.values.len() == window.kernel_len())?;
    transposed_by::<L, _>(
        window,
        y,
        #[inline(always)]
        |output, tap| QuantizedRows {
            weight: kernel,
            start: strides.at(output, tap),
            row_stride: strides.channel,
            term_stride: strides.output,
        },
        bias,
        out,
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Owned, assert_same, floats};
    use super::*;
    use crate::{Axis, Narrow, convolution};
    use damper_testing::Random;

    // Both directions have the bits of the float kernels: with groups, strides, dilation, padding and more terms than a
    // block.
    #[test]
    fn quantized_kernels_have_float_bits() {
        let mut random = Random(47);
        for case in 0..200 {
            let groups = 1 + random.below(3);
            let wide = if case % 8 == 0 { 75 } else { 4 };
            let channels = groups * (1 + random.below(if case % 16 == 0 { 4 } else { wide }));
            let outputs = groups * (1 + random.below(if case % 16 == 0 { wide } else { 4 }));
            let mut axis = || {
                let (kernel, stride, dilation) = (1 + random.below(3), 1 + random.below(2), 1 + random.below(2));
                let (before, input) = (random.below(3), 6 + random.below(4));
                let output = (input + 2 * before - (kernel - 1) * dilation - 1) / stride + 1;
                Axis { input, output, kernel, stride, dilation, before }
            };
            let axes = if case % 3 == 0 { [Axis::POINT, axis()] } else { [axis(), axis()] };
            let window = Window::new(channels, outputs, groups, axes).unwrap();
            let (taps, of_group) = (window.taps(), window.group_channels());
            let kernel = match random.below(3) {
                0 => Owned::new(&mut random, 1, outputs, of_group * taps),
                1 => Owned::new(&mut random, outputs, of_group, taps),
                _ => Owned::new(&mut random, 1, 1, outputs * of_group * taps),
            };
            let (x, y) = (floats(&mut random, window.input_len()), floats(&mut random, window.output_len()));
            let (bias, back) = (floats(&mut random, outputs), floats(&mut random, channels));
            let is_biased = random.below(2) == 1;
            let (bias, back) = (is_biased.then_some(&bias[..]), is_biased.then_some(&back[..]));
            let (mut got, mut want) =
                (std::vec![f32::NAN; window.output_len()], std::vec![f32::NAN; window.output_len()]);
            forward::<Narrow>(&window, &x, &kernel.weight(), bias, &mut got).unwrap();
            convolution::forward::<Narrow>(&window, &x, &kernel.floats, bias, &mut want).unwrap();
            assert_same(&got, &want);
            let (mut got, mut want) =
                (std::vec![f32::NAN; window.input_len()], std::vec![f32::NAN; window.input_len()]);
            let strides = KernelStrides::onnx(&window);
            transposed::<Narrow>(&window, &y, &kernel.weight(), strides, back, &mut got).unwrap();
            convolution::transposed::<Narrow>(&window, &y, &kernel.floats, strides, back, &mut want).unwrap();
            assert_same(&got, &want);
            assert_eq!(forward::<Narrow>(&window, &x[1..], &kernel.weight(), bias, &mut got), Err(Error::Length));
        }
    }
}
