//! Convolutions under a quantised kernel, and their gradient by the image.

use super::{Block, Quantized};
use crate::convolution::{KernelStrides, line};
use crate::sum::BLOCK;
use crate::window::{Window, split};
use crate::{Error, check};

/// As [`forward`](crate::convolution::forward), with the same bits, under a quantised kernel.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn forward(
    window: &Window,
    x: &[f32],
    kernel: &Quantized<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    let terms = window.group_channels().wrapping_mul(window.taps());
    kernel.check(kernel.values.len())?;
    check(x.len() == window.input_len() && kernel.values.len() == window.kernel_len())?;
    check(out.len() == window.output_len() && bias.is_none_or(|bias| bias.len() == window.outputs) && terms > 0)?;
    let [_, width] = window.axes;
    let positions = window.positions();
    let group_len = window.group_channels().wrapping_mul(window.area());
    let mut block: Block = [0.0; BLOCK];
    for (output, out) in out.chunks_mut(positions.max(1)).enumerate() {
        let group = output.checked_div(window.group_outputs()).unwrap_or(0);
        let image = x.get(group.wrapping_mul(group_len)..).unwrap_or_default();
        for first in (0..terms).step_by(BLOCK) {
            let block = block.get_mut(..BLOCK.min(terms - first)).unwrap_or_default();
            kernel.read(output.wrapping_mul(terms).wrapping_add(first), 1, block);
            for (position, out) in out.iter_mut().enumerate() {
                let sum = block_sum(window, image, first, block, split(position, width.output));
                *out = if first == 0 { sum } else { *out + sum };
            }
        }
        if let Some(bias) = bias.and_then(|bias| bias.get(output)) {
            out.iter_mut().for_each(|out| *out += bias);
        }
    }
    Ok(())
}

/// The sum of a block of terms `(channel, tap)` from `first` on, of the window at `(y, x)`.
#[inline(always)]
fn block_sum(window: &Window, image: &[f32], first: usize, block: &[f32], (y, x): (usize, usize)) -> f32 {
    let [height, width] = window.axes;
    let area = window.area();
    let (channel, tap) = split(first, window.taps());
    let (mut i, mut j) = split(tap, width.kernel);
    let mut image = image.get(channel.wrapping_mul(area)..).unwrap_or_default();
    let (mut sum, mut rest) = (0.0f32, block);
    // A line of taps at a time: the first and the last may be cut.
    while !rest.is_empty() {
        let count = width.kernel.saturating_sub(j).clamp(1, rest.len());
        let Some((weights, behind)) = rest.split_at_checked(count) else { return sum };
        let row = line(window, image, height.at(y, i));
        let mut at = width.at(x, j);
        for weight in weights {
            sum += weight * row.get(at).copied().unwrap_or(0.0);
            at = at.wrapping_add(width.dilation);
        }
        (rest, j) = (behind, 0);
        i += 1;
        if i >= height.kernel {
            i = 0;
            image = image.get(area..).unwrap_or_default();
        }
    }
    sum
}

/// As [`transposed`](crate::convolution::transposed), with the same bits, under a quantised kernel.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn transposed(
    window: &Window,
    y: &[f32],
    kernel: &Quantized<'_>,
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    kernel.check(kernel.values.len())?;
    check(y.len() == window.output_len() && kernel.values.len() == window.kernel_len())?;
    check(out.len() == window.input_len() && bias.is_none_or(|bias| bias.len() == window.channels))?;
    let [height, width] = window.axes;
    let (positions, outputs) = (window.positions(), window.group_outputs());
    let mut block: Block = [0.0; BLOCK];
    for (channel, out) in out.chunks_mut(window.area().max(1)).enumerate() {
        let (group, channel_of_group) = split(channel, window.group_channels());
        let first = group.wrapping_mul(outputs);
        let y = y.get(first.wrapping_mul(positions)..).unwrap_or_default();
        out.fill(0.0);
        for tap in 0..window.taps() {
            let (i, j) = split(tap, width.kernel);
            let mut start = first.wrapping_mul(strides.output);
            start = start.wrapping_add(channel_of_group.wrapping_mul(strides.channel));
            start = start.wrapping_add(tap.wrapping_mul(strides.tap));
            // The block of outputs that is in `block`: one block stays for all entries.
            let mut held = usize::MAX;
            for (at, out) in out.iter_mut().enumerate() {
                let (row, column) = split(at, width.input);
                let (Some(i), Some(j)) = (height.window(row, i), width.window(column, j)) else { continue };
                let mut y_at = i.wrapping_mul(width.output).wrapping_add(j);
                let mut whole = 0.0f32;
                for output in (0..outputs).step_by(BLOCK) {
                    let block = block.get_mut(..BLOCK.min(outputs - output)).unwrap_or_default();
                    if held != output {
                        kernel.read(start.wrapping_add(output.wrapping_mul(strides.output)), strides.output, block);
                        held = output;
                    }
                    let mut sum = 0.0f32;
                    for weight in &*block {
                        if let Some(y) = y.get(y_at) {
                            sum += weight * y;
                        }
                        y_at = y_at.wrapping_add(positions);
                    }
                    whole += sum;
                }
                *out += whole;
            }
        }
        if let Some(bias) = bias.and_then(|bias| bias.get(channel)) {
            out.iter_mut().for_each(|out| *out += bias);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Owned, assert_same, floats};
    use super::*;
    use crate::{Axis, convolution};
    use damper_testing::Random;

    // Both directions have the bits of floats: groups, strides, dilation, pads, more terms than a block.
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
            forward(&window, &x, &kernel.weight(), bias, &mut got).unwrap();
            convolution::forward(&window, &x, &kernel.floats, bias, &mut want).unwrap();
            assert_same(&got, &want);
            let (mut got, mut want) =
                (std::vec![f32::NAN; window.input_len()], std::vec![f32::NAN; window.input_len()]);
            let strides = KernelStrides::onnx(&window);
            transposed(&window, &y, &kernel.weight(), strides, back, &mut got).unwrap();
            convolution::transposed(&window, &y, &kernel.floats, strides, back, &mut want).unwrap();
            assert_same(&got, &want);
            assert_eq!(forward(&window, &x[1..], &kernel.weight(), bias, &mut got), Err(Error::Length));
        }
    }
}
