//! Convolutions of lines and planes, their gradient by the image and by the kernel, for one sample.
//!
//! Orders of sums (`c` a channel of the image in its group, `(i, j)` a tap, `o` a channel of the output, `p` a window, row-major):
//!
//! - [`forward`]: over `(c, i, j)`, the last fastest, in the [order of sums](crate::sum). A tap outside the image is a term `weight · 0`.
//!   The bias is added last.
//! - [`transposed`]: for each tap that meets the entry, over `o` in the order of sums; these sums are added one after the other, in the order
//!   of the taps, onto +0. A tap that meets no window is no term. The bias is added last.
//! - [`kernel_grad`]: over `p` in the order of sums. A tap outside the image is a term `gradient · 0`.
//!
//! Each has a small form for a microcontroller, and a `_wide` one with the same bits for processors with vectors, with 5 KB of stack. A line
//! is a plane of height 1 ([`Axis::POINT`](crate::Axis::POINT)).

use crate::sum::{BLOCK, Sum};
use crate::tile::{self, LANES, Left, Panel, PanelRange};
use crate::window::{Window, split};
use crate::{Error, check};

/// `x` `[channels, H, W]` under `kernel` `[outputs, channels / groups, *taps]` and `bias` `[outputs]`, into `out` `[outputs, *windows]`.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn forward(window: &Window, x: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]) -> Result<(), Error> {
    check_forward(window, x, kernel, bias, out)?;
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
    Ok(())
}

/// Row `at` of a channel; nothing outside.
#[inline(always)]
pub(crate) fn line<'a>(window: &Window, channel: &'a [f32], at: usize) -> &'a [f32] {
    let [height, width] = window.axes;
    if at >= height.input {
        return &[];
    }
    let start = at.wrapping_mul(width.input);
    channel.get(start..start.wrapping_add(width.input)).unwrap_or_default()
}

#[inline(always)]
fn check_forward(window: &Window, x: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &[f32]) -> Result<(), Error> {
    check(x.len() == window.input_len() && kernel.len() == window.kernel_len() && out.len() == window.output_len())?;
    check(bias.is_none_or(|bias| bias.len() == window.outputs) && window.group_channels() * window.taps() > 0)
}

/// As [`forward`], with the same bits, by panels.
///
/// # Errors
///
/// Those of [`forward`].
#[inline(always)]
pub fn forward_wide(
    window: &Window,
    x: &[f32],
    kernel: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check_forward(window, x, kernel, bias, out)?;
    let (positions, terms) = (window.positions(), window.group_channels().wrapping_mul(window.taps()));
    let rows = window.group_outputs();
    let images = x.chunks(window.group_channels().wrapping_mul(window.area()).max(1));
    let outputs = out.chunks_mut(rows.wrapping_mul(positions).max(1));
    for (group, ((image, kernel), out)) in
        images.zip(kernel.chunks(rows.wrapping_mul(terms).max(1))).zip(outputs).enumerate()
    {
        let left = Left { x: kernel, row_stride: terms, term_stride: 1 };
        let bias = bias.and_then(|bias| bias.get(group.wrapping_mul(rows)..));
        tile::product(
            (rows, positions, terms),
            left,
            #[inline(always)]
            |place: PanelRange, panel: &mut Panel| pack_windows(window, image, place, panel),
            #[inline(always)]
            |row, place, sums| {
                let out = tile::store(out, row.wrapping_mul(positions), place, sums);
                if place.term + place.terms == terms
                    && let Some(bias) = bias.and_then(|bias| bias.get(row))
                {
                    out.iter_mut().for_each(|out| *out += bias);
                }
            },
        );
    }
    Ok(())
}

/// Terms are `(channel, tap)`, columns are windows.
#[inline(always)]
fn pack_windows(window: &Window, image: &[f32], place: PanelRange, panel: &mut Panel) {
    let [height, width] = window.axes;
    let mut starts = [(usize::MAX / 2, usize::MAX / 2); LANES];
    let (mut y, mut x) = split(place.column, width.output);
    for start in starts.iter_mut().take(place.columns) {
        *start = (height.at(y, 0), width.at(x, 0));
        x += 1;
        if x == width.output {
            (y, x) = (y + 1, 0);
        }
    }
    let (channel, tap) = split(place.term, window.taps());
    let (mut i, mut j) = split(tap, width.kernel);
    let area = window.area();
    let mut rest = image.get(channel.wrapping_mul(area)..).unwrap_or_default();
    for lanes in panel.iter_mut().take(place.terms) {
        let (down, right) = (i.wrapping_mul(height.dilation), j.wrapping_mul(width.dilation));
        for (lane, (y, x)) in lanes.iter_mut().zip(&starts) {
            let (y, x) = (y.wrapping_add(down), x.wrapping_add(right));
            let at = y.wrapping_mul(width.input).wrapping_add(x);
            let is_inside = y < height.input && x < width.input;
            *lane = if is_inside { rest.get(at).copied().unwrap_or(0.0) } else { 0.0 };
        }
        j += 1;
        if j == width.kernel {
            (i, j) = (i + 1, 0);
        }
        if i == height.kernel {
            i = 0;
            rest = rest.get(area..).unwrap_or_default();
        }
    }
}

/// How a kernel lies: from one channel of the output to the next, one channel of the image in its group, one tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct KernelStrides {
    /// From one channel of the output to the next.
    pub output: usize,
    /// From one channel of the image in its group to the next.
    pub channel: usize,
    /// From one tap to the next.
    pub tap: usize,
}

impl KernelStrides {
    /// `[outputs, channels / groups, *taps]`, as ONNX has it.
    #[must_use]
    pub fn onnx(window: &Window) -> Self {
        let taps = window.taps();
        Self { output: window.group_channels().wrapping_mul(taps), channel: taps, tap: 1 }
    }

    /// `[*taps, channels / groups, outputs]`: the order in which [`transposed_wide`] reads.
    #[must_use]
    pub fn taps_first(window: &Window) -> Self {
        let tap = window.group_channels().wrapping_mul(window.outputs);
        Self { output: 1, channel: window.outputs, tap }
    }
}

/// The transposed convolution, which is the gradient of [`forward`] by its image: `y` `[outputs, *windows]` under `kernel` and `bias`
/// `[channels]`, into `out` `[channels, H, W]`.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn transposed(
    window: &Window,
    y: &[f32],
    kernel: &[f32],
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check_transposed(window, y, kernel, bias, out)?;
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
    Ok(())
}

#[inline(always)]
fn check_transposed(
    window: &Window,
    y: &[f32],
    kernel: &[f32],
    bias: Option<&[f32]>,
    out: &[f32],
) -> Result<(), Error> {
    check(y.len() == window.output_len() && kernel.len() == window.kernel_len() && out.len() == window.input_len())?;
    check(bias.is_none_or(|bias| bias.len() == window.channels))
}

/// As [`transposed`], with the same bits, by panels. Fastest with [`KernelStrides::taps_first`].
///
/// # Errors
///
/// Those of [`transposed`].
#[inline(always)]
pub fn transposed_wide(
    window: &Window,
    y: &[f32],
    kernel: &[f32],
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check_transposed(window, y, kernel, bias, out)?;
    out.fill(0.0);
    let [_, width] = window.axes;
    let (positions, outputs, channels) = (window.positions(), window.group_outputs(), window.group_channels());
    let area = window.area();
    let groups =
        y.chunks(outputs.wrapping_mul(positions).max(1)).zip(out.chunks_mut(channels.wrapping_mul(area).max(1)));
    let mut panel = [[0.0; LANES]; BLOCK];
    for (group, (y, out)) in groups.enumerate() {
        let kernel = kernel.get(group.wrapping_mul(outputs).wrapping_mul(strides.output)..).unwrap_or_default();
        for tap in 0..window.taps() {
            let rows = kernel.get(tap.wrapping_mul(strides.tap)..).unwrap_or_default();
            let left = Left { x: rows, row_stride: strides.channel, term_stride: strides.output };
            let tap = split(tap, width.kernel);
            for column in (0..positions).step_by(LANES) {
                let columns = LANES.min(positions - column);
                let mut places = [usize::MAX; LANES];
                for (lane, place) in places.iter_mut().enumerate().take(columns) {
                    *place = window.inside(split(column + lane, width.output), tap).unwrap_or(usize::MAX);
                }
                for (channel, out) in out.chunks_mut(area.max(1)).enumerate() {
                    let sums = over_outputs(left, channel, (outputs, positions), (column, columns), y, &mut panel);
                    for (place, sum) in places.iter().zip(sums) {
                        // What has no place is outside.
                        if let Some(out) = out.get_mut(*place) {
                            *out += sum;
                        }
                    }
                }
            }
        }
    }
    if let Some(bias) = bias {
        for (out, bias) in out.chunks_mut(area.max(1)).zip(bias) {
            out.iter_mut().for_each(|out| *out += bias);
        }
    }
    Ok(())
}

/// Sums over the channels of the output for channel `channel` of the image, at `columns` windows from `column` on.
#[inline(always)]
fn over_outputs(
    left: Left<'_>,
    channel: usize,
    (outputs, positions): (usize, usize),
    (column, columns): (usize, usize),
    y: &[f32],
    panel: &mut Panel,
) -> [f32; LANES] {
    let mut whole = [0.0f32; LANES];
    for term in (0..outputs).step_by(BLOCK) {
        let place = PanelRange { term, terms: BLOCK.min(outputs - term), column, columns };
        // The panel of a single block stays from one channel to the next.
        if channel == 0 || outputs > BLOCK {
            let rows = y.get(term.wrapping_mul(positions)..).unwrap_or_default().chunks(positions.max(1));
            for (lanes, row) in panel.iter_mut().take(place.terms).zip(rows) {
                let row = row.get(column..).unwrap_or_default();
                match row.first_chunk() {
                    Some(row) => *lanes = *row,
                    None => lanes.iter_mut().zip(row).for_each(|(lane, y)| *lane = *y),
                }
            }
        }
        for (whole, block) in whole.iter_mut().zip(tile::tile(left, channel, place, panel)) {
            *whole += block;
        }
    }
    whole
}

/// The gradient of [`forward`] by its kernel, of the gradient `dy` `[outputs, *windows]` and the image `x` `[channels, H, W]`, into `out`
/// `[outputs, channels / groups, *taps]`.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn kernel_grad(window: &Window, dy: &[f32], x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    check(dy.len() == window.output_len() && x.len() == window.input_len() && out.len() == window.kernel_len())?;
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
    Ok(())
}

/// [`kernel_grad`] of one group, handed to `take` the taps of one channel at a time, by way of `taps`. `window` is over one channel, to one.
///
/// # Errors
///
/// A slice has another length than the window says.
#[inline(always)]
pub fn kernel_grad_by_channels(
    window: &Window,
    dy: &[f32],
    x: &[f32],
    taps: &mut [f32],
    mut take: impl FnMut(&[f32]),
) -> Result<(), Error> {
    for dy in dy.chunks(window.output_len().max(1)) {
        for x in x.chunks(window.input_len().max(1)) {
            kernel_grad(window, dy, x, taps)?;
            take(taps);
        }
    }
    Ok(())
}

/// As [`kernel_grad`], with the same bits, by panels.
///
/// # Errors
///
/// Those of [`kernel_grad`].
#[inline(always)]
pub fn kernel_grad_wide(window: &Window, dy: &[f32], x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    check(dy.len() == window.output_len() && x.len() == window.input_len() && out.len() == window.kernel_len())?;
    let positions = window.positions();
    if positions == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let (rows, columns) = (window.group_outputs(), window.group_channels().wrapping_mul(window.taps()));
    let images = x.chunks(window.group_channels().wrapping_mul(window.area()).max(1));
    let kernels = out.chunks_mut(rows.wrapping_mul(columns).max(1));
    for ((image, dy), out) in images.zip(dy.chunks(rows.wrapping_mul(positions).max(1))).zip(kernels) {
        let left = Left { x: dy, row_stride: positions, term_stride: 1 };
        tile::product(
            (rows, columns, positions),
            left,
            #[inline(always)]
            |place: PanelRange, panel: &mut Panel| pack_taps(window, image, place, panel),
            #[inline(always)]
            |row, place, sums| {
                tile::store(out, row.wrapping_mul(columns), place, sums);
            },
        );
    }
    Ok(())
}

/// Terms are windows, columns are `(channel, tap)`.
#[inline(always)]
fn pack_taps(window: &Window, image: &[f32], place: PanelRange, panel: &mut Panel) {
    let [height, width] = window.axes;
    // The tap's place for the first window, and its channel's.
    let mut taps = [(usize::MAX / 2, usize::MAX / 2, 0); LANES];
    for (lane, at) in taps.iter_mut().enumerate().take(place.columns) {
        let (channel, tap) = split(place.column.wrapping_add(lane), window.taps());
        let (i, j) = split(tap, width.kernel);
        *at = (height.at(0, i), width.at(0, j), channel.wrapping_mul(window.area()));
    }
    let (mut y, mut x) = split(place.term, width.output);
    for lanes in panel.iter_mut().take(place.terms) {
        let (down, right) = (y.wrapping_mul(height.stride), x.wrapping_mul(width.stride));
        for (lane, (i, j, channel)) in lanes.iter_mut().zip(&taps) {
            let (row, column) = (i.wrapping_add(down), j.wrapping_add(right));
            let at = channel.wrapping_add(row.wrapping_mul(width.input)).wrapping_add(column);
            let is_inside = row < height.input && column < width.input;
            *lane = if is_inside { image.get(at).copied().unwrap_or(0.0) } else { 0.0 };
        }
        x += 1;
        if x == width.output {
            (y, x) = (y + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests;
