//! Reference implementations of the convolutions, one sum at a time. The tests compare the kernels with them.

use super::{KernelStrides, line};
use crate::sum::Sum;
use crate::window::{Window, split};

pub fn forward(window: &Window, x: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    let [height, width] = window.axes;
    let (positions, taps, area) = (window.positions(), window.taps(), window.area());
    let group_len = window.group_channels().wrapping_mul(area);
    let kernels = kernel.chunks((window.group_channels().wrapping_mul(taps)).max(1));
    for ((output, out), kernel) in out.chunks_mut(positions.max(1)).enumerate().zip(kernels) {
        let group = output.checked_div(window.group_outputs()).unwrap_or(0);
        let image = x.get(group.wrapping_mul(group_len)..).unwrap_or_default();
        let bias = bias.and_then(|bias| bias.get(output)).copied();
        for (position, out) in out.iter_mut().enumerate() {
            let (y, x) = split(position, width.output);
            let mut sum = Sum::default();
            let channels = image.chunks(area.max(1)).zip(kernel.chunks(taps.max(1)));
            for (channel, weights) in channels {
                for (i, weights) in weights.chunks(width.kernel.max(1)).enumerate() {
                    let row = line(window, channel, height.at(y, i));
                    let mut at = width.at(x, 0);
                    for weight in weights {
                        sum.add(weight * row.get(at).copied().unwrap_or(0.0));
                        at = at.wrapping_add(width.dilation);
                    }
                }
            }
            *out = bias.map_or(sum.value(), |bias| sum.value() + bias);
        }
    }
}

pub fn transposed(
    window: &Window,
    y: &[f32],
    kernel: &[f32],
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let [height, width] = window.axes;
    let (positions, outputs) = (window.positions(), window.group_outputs());
    for (channel, out) in out.chunks_mut(window.area().max(1)).enumerate() {
        let (group, channel_of_group) = split(channel, window.group_channels());
        let first = group.wrapping_mul(outputs);
        let y = y.get(first.wrapping_mul(positions)..).unwrap_or_default();
        let bias = bias.and_then(|bias| bias.get(channel)).copied();
        for (at, out) in out.iter_mut().enumerate() {
            let (row, column) = split(at, width.input);
            let mut whole = 0.0f32;
            for tap in 0..window.taps() {
                let (i, j) = split(tap, width.kernel);
                let (Some(i), Some(j)) = (height.window(row, i), width.window(column, j)) else { continue };
                let mut y_at = i.wrapping_mul(width.output).wrapping_add(j);
                let mut kernel_at = first.wrapping_mul(strides.output);
                kernel_at = kernel_at.wrapping_add(channel_of_group.wrapping_mul(strides.channel));
                kernel_at = kernel_at.wrapping_add(tap.wrapping_mul(strides.tap));
                let mut sum = Sum::default();
                for _ in 0..outputs {
                    if let (Some(weight), Some(y)) = (kernel.get(kernel_at), y.get(y_at)) {
                        sum.add(weight * y);
                    }
                    kernel_at = kernel_at.wrapping_add(strides.output);
                    y_at = y_at.wrapping_add(positions);
                }
                whole += sum.value();
            }
            *out = bias.map_or(whole, |bias| whole + bias);
        }
    }
}

pub fn kernel_grad(window: &Window, dy: &[f32], x: &[f32], out: &mut [f32]) {
    let [height, width] = window.axes;
    let (positions, taps, area) = (window.positions(), window.taps(), window.area());
    let group_len = window.group_channels().wrapping_mul(area);
    let kernels = out.chunks_mut(window.group_channels().wrapping_mul(taps).max(1));
    for ((output, out), dy) in kernels.enumerate().zip(dy.chunks(positions.max(1))) {
        let group = output.checked_div(window.group_outputs()).unwrap_or(0);
        let image = x.get(group.wrapping_mul(group_len)..).unwrap_or_default();
        for (out, channel) in out.chunks_mut(taps.max(1)).zip(image.chunks(area.max(1))) {
            for (tap, out) in out.iter_mut().enumerate() {
                let (i, j) = split(tap, width.kernel);
                let mut sum = Sum::default();
                for (y, dy) in dy.chunks(width.output.max(1)).enumerate() {
                    let row = line(window, channel, height.at(y, i));
                    let mut at = width.at(0, j);
                    for dy in dy {
                        sum.add(dy * row.get(at).copied().unwrap_or(0.0));
                        at = at.wrapping_add(width.stride);
                    }
                }
                *out = sum.value();
            }
        }
    }
    if positions == 0 {
        out.fill(0.0);
    }
}
