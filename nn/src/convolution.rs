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
use crate::tile::{self, LANES, Left, Panel, Place};
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
            |place: Place, panel: &mut Panel| pack_windows(window, image, place, panel),
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
fn pack_windows(window: &Window, image: &[f32], place: Place, panel: &mut Panel) {
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
        let place = Place { term, terms: BLOCK.min(outputs - term), column, columns };
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
            |place: Place, panel: &mut Panel| pack_taps(window, image, place, panel),
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
fn pack_taps(window: &Window, image: &[f32], place: Place, panel: &mut Panel) {
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
mod tests {
    use super::*;
    use crate::window::Axis;
    use damper_testing::Random;
    use std::vec::Vec;

    fn values(random: &mut Random, len: usize) -> Vec<f32> {
        (0..len).map(|_| (random.below(1 << 16) as f32 - 32768.0) * 3.1e-5).collect()
    }

    /// An axis of random extents, sometimes with windows that lie outside in part or as a whole.
    fn axis(random: &mut Random) -> Axis {
        let mut draw = |low: usize, high: usize| low + random.below(high - low + 1);
        let (kernel, stride, dilation, before) = (draw(1, 4), draw(1, 3), draw(1, 2), draw(0, 3));
        Axis { input: draw(1, 9), output: draw(1, 9), kernel, stride, dilation, before }
    }

    fn window(random: &mut Random) -> Window {
        let groups = 1 + random.below(3);
        let (channels, outputs) = (groups * (1 + random.below(5)), groups * (1 + random.below(9)));
        let axes = if random.below(4) == 0 { [Axis::POINT, axis(random)] } else { [axis(random), axis(random)] };
        Window::new(channels, outputs, groups, axes).unwrap()
    }

    /// Every product `kernel · image` of the convolution: output, image and kernel element.
    fn each_product(window: &Window, mut each: impl FnMut(usize, usize, usize)) {
        let [h, w] = window.axes;
        let (cs, os) = (window.group_channels(), window.group_outputs());
        for (o, y, x) in
            (0..window.outputs).flat_map(|o| (0..h.output).flat_map(move |y| (0..w.output).map(move |x| (o, y, x))))
        {
            for (c, i, j) in
                (0..cs).flat_map(|c| (0..h.kernel).flat_map(move |i| (0..w.kernel).map(move |j| (c, i, j))))
            {
                let row = (y * h.stride + i * h.dilation) as isize - h.before as isize;
                let column = (x * w.stride + j * w.dilation) as isize - w.before as isize;
                if (0..h.input as isize).contains(&row) && (0..w.input as isize).contains(&column) {
                    let image = ((o / os * cs + c) * h.input + row as usize) * w.input + column as usize;
                    let kernel = ((o * cs + c) * h.kernel + i) * w.kernel + j;
                    each((o * h.output + y) * w.output + x, image, kernel);
                }
            }
        }
    }

    fn assert_near(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() <= 2e-5 * want.abs().max(1.0), "{got}, not {want}");
        }
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|x| x.to_bits()).collect()
    }

    // Each form is the sum over all products in f64, and the wide one has the bits of the small one.
    #[test]
    fn convolutions_match_products_in_f64() {
        let mut random = Random(7);
        for _ in 0..150 {
            let window = window(&mut random);
            let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
            let dy = values(&mut random, window.output_len());
            let (bias, dx_bias) = (values(&mut random, window.outputs), values(&mut random, window.channels));
            let mut want = bias.iter().flat_map(|b| std::vec![f64::from(*b); window.positions()]).collect::<Vec<_>>();
            let mut dx = dx_bias.iter().flat_map(|b| std::vec![f64::from(*b); window.area()]).collect::<Vec<_>>();
            let mut dk = std::vec![0.0f64; kernel.len()];
            each_product(&window, |o, i, k| {
                want[o] += f64::from(x[i]) * f64::from(kernel[k]);
                dx[i] += f64::from(dy[o]) * f64::from(kernel[k]);
                dk[k] += f64::from(dy[o]) * f64::from(x[i]);
            });
            let (mut small, mut wide) = (std::vec![f32::NAN; want.len()], std::vec![f32::NAN; want.len()]);
            forward(&window, &x, &kernel, Some(&bias), &mut small).unwrap();
            forward_wide(&window, &x, &kernel, Some(&bias), &mut wide).unwrap();
            assert_near(&small, &want);
            assert_eq!(bits(&small), bits(&wide), "{window:?}");

            let strides = KernelStrides::onnx(&window);
            let (mut small, mut wide) = (std::vec![f32::NAN; dx.len()], std::vec![f32::NAN; dx.len()]);
            transposed(&window, &dy, &kernel, strides, Some(&dx_bias), &mut small).unwrap();
            transposed_wide(&window, &dy, &kernel, strides, Some(&dx_bias), &mut wide).unwrap();
            assert_near(&small, &dx);
            assert_eq!(bits(&small), bits(&wide), "{window:?}");
            let first = KernelStrides::taps_first(&window);
            let (channels, taps) = (window.group_channels(), window.taps());
            let mut laid = std::vec![0.0; kernel.len()];
            for (at, weight) in kernel.iter().enumerate() {
                let (o, c, t) = (at / (channels * taps), at / taps % channels, at % taps);
                laid[o * first.output + c * first.channel + t * first.tap] = *weight;
            }
            transposed_wide(&window, &dy, &laid, first, Some(&dx_bias), &mut wide).unwrap();
            assert_eq!(bits(&small), bits(&wide), "{window:?}");

            let (mut small, mut wide) = (std::vec![f32::NAN; dk.len()], std::vec![f32::NAN; dk.len()]);
            kernel_grad(&window, &dy, &x, &mut small).unwrap();
            kernel_grad_wide(&window, &dy, &x, &mut wide).unwrap();
            assert_near(&small, &dk);
            assert_eq!(bits(&small), bits(&wide), "{window:?}");
        }
    }

    // Sums of more than one block have the same bits in both forms.
    #[test]
    fn long_sums_have_the_same_bits() {
        let mut random = Random(9);
        let axis = Axis { input: 14, output: 12, kernel: 3, stride: 1, dilation: 1, before: 0 };
        let window = Window::new(17, 70, 1, [axis, axis]).unwrap();
        let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
        let dy = values(&mut random, window.output_len());
        let (mut small, mut wide) = (std::vec![0.0; dy.len()], std::vec![0.0; dy.len()]);
        forward(&window, &x, &kernel, None, &mut small).unwrap();
        forward_wide(&window, &x, &kernel, None, &mut wide).unwrap();
        assert_eq!(bits(&small), bits(&wide));
        let (mut small, mut wide) = (std::vec![0.0; x.len()], std::vec![0.0; x.len()]);
        let strides = KernelStrides::onnx(&window);
        transposed(&window, &dy, &kernel, strides, None, &mut small).unwrap();
        transposed_wide(&window, &dy, &kernel, strides, None, &mut wide).unwrap();
        assert_eq!(bits(&small), bits(&wide));
        let (mut small, mut wide) = (std::vec![0.0; kernel.len()], std::vec![0.0; kernel.len()]);
        kernel_grad(&window, &dy, &x, &mut small).unwrap();
        kernel_grad_wide(&window, &dy, &x, &mut wide).unwrap();
        assert_eq!(bits(&small), bits(&wide));
    }

    // A weight that is not finite meets what is outside the image in both forms alike.
    #[test]
    fn infinite_weights_meet_the_pads() {
        let axis = Axis { input: 2, output: 2, kernel: 3, stride: 1, dilation: 1, before: 1 };
        let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
        let (mut small, mut wide) = ([0.0; 2], [0.0; 2]);
        forward(&window, &[1.0, 2.0], &[f32::INFINITY, 1.0, 1.0], None, &mut small).unwrap();
        forward_wide(&window, &[1.0, 2.0], &[f32::INFINITY, 1.0, 1.0], None, &mut wide).unwrap();
        assert!(small[0].is_nan() && small[1] == f32::INFINITY && wide[0].is_nan() && wide[1] == f32::INFINITY);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let window = Window::new(1, 1, 1, [Axis::POINT, Axis::POINT]).unwrap();
        let mut out = [0.0];
        assert_eq!(forward(&window, &[1.0, 2.0], &[1.0], None, &mut out), Err(Error::Length));
        assert_eq!(forward_wide(&window, &[1.0], &[1.0], Some(&[]), &mut out), Err(Error::Length));
        assert_eq!(kernel_grad(&window, &[], &[1.0], &mut out), Err(Error::Length));
        assert!(Window::new(3, 4, 2, [Axis::POINT; 2]).is_none() && Window::new(1, 1, 0, [Axis::POINT; 2]).is_none());
        assert!(Window::new(1, 1, 1, [Axis { stride: 0, ..Axis::POINT }, Axis::POINT]).is_none());
        assert!(Window::new(usize::MAX, 1, 1, [Axis { input: 2, ..Axis::POINT }, Axis::POINT]).is_none());
    }
}
