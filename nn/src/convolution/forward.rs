//! Convolution of an image.

use super::line;
use crate::sum::BLOCK;
use crate::tile::{self, Lanes, Panel, PanelRange, Rows, Strided};
use crate::window::{Window, split};
use crate::{Error, check};

/// Convolves `x` `[channels, H, W]` with `kernel` `[outputs, channels / groups, *taps]`, adds `bias` `[outputs]` and
/// writes `out` `[outputs, *windows]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, convolution::forward};
///
/// // Differences of neighbours, plus 10.
/// let axis = Axis { input: 4, output: 3, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 3];
/// forward::<Narrow>(&window, &[1.0, 2.0, 4.0, 8.0], &[-1.0, 1.0], Some(&[10.0]), &mut out)?;
/// assert_eq!(out, [11.0, 12.0, 14.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn forward<L: Lanes>(
    window: &Window,
    x: &[f32],
    kernel: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check(kernel.len() == window.kernel_len())?;
    let rows = Strided { x: kernel, row_stride: window.output_taps(), term_stride: 1 };
    forward_by::<L>(window, x, &rows, bias, out)
}

/// Computes [`forward`] with the kernel as rows of weights, one row per output.
///
/// # Errors
///
/// As for [`forward`].
#[inline(always)]
pub(crate) fn forward_by<L: Lanes>(
    window: &Window,
    x: &[f32],
    kernel: &impl Rows,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    let terms = window.output_taps();
    check(x.len() == window.input_len() && out.len() == window.output_len() && terms > 0)?;
    check(bias.is_none_or(|bias| bias.len() == window.outputs))?;
    let (positions, rows) = (window.positions(), window.group_outputs());
    let image_len = window.group_channels().wrapping_mul(window.area());
    // Does not zip chunks: compiled for size, their division may keep a panic.
    for (group, out) in out.chunks_mut(rows.wrapping_mul(positions).max(1)).enumerate() {
        let first = group.wrapping_mul(rows);
        let image = x.get(group.wrapping_mul(image_len)..).unwrap_or_default();
        let bias = bias.and_then(|bias| bias.get(first..));
        if rows == 1 && window.group_channels() == 1 && plane(window, image, (kernel, first), out) {
            if let Some(bias) = bias.and_then(|bias| bias.first()) {
                out.iter_mut().for_each(|out| *out += bias);
            }
            continue;
        }
        tile::product::<L>(
            (first, rows, positions, terms),
            kernel,
            #[inline(always)]
            |place: PanelRange, panel: &mut Panel<L>| pack_windows(window, image, place, panel),
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

/// Convolves one channel with the kernel of row `row`, tap by tap, because one channel is too little for a panel.
/// Returns false, with nothing computed, if the sums are longer than a block or a weight is not finite.
///
/// Skips taps outside the image. Such a term is ±0, because the weight is finite. A sum that begins at +0 is never −0,
/// so adding ±0 changes no bit.
#[inline(always)]
fn plane(window: &Window, image: &[f32], (kernel, row): (&impl Rows, usize), out: &mut [f32]) -> bool {
    let [height, width] = window.axes;
    let mut buffer = [0.0f32; BLOCK];
    if window.taps() > BLOCK {
        return false;
    }
    let weights = kernel.block(row, 0, window.taps(), &mut buffer);
    if !weights.iter().all(|weight| weight.is_finite()) {
        return false;
    }
    out.fill(0.0);
    let (mut i, mut j) = (0, 0);
    for weight in weights {
        let columns = width.windows_inside(j);
        for (y, out) in out.chunks_mut(width.output.max(1)).enumerate() {
            let x = line(window, image, height.at(y, i)).get(width.at(columns.start, j)..).unwrap_or_default();
            let out = out.get_mut(columns.clone()).unwrap_or_default();
            add_scaled(out, 1, *weight, x, width.stride);
        }
        j += 1;
        if j == width.kernel {
            (i, j) = (i + 1, 0);
        }
    }
    true
}

/// Adds `factor · x` to `out`, each with its own stride, until the shorter slice ends.
#[inline(always)]
pub(super) fn add_scaled(out: &mut [f32], out_stride: usize, factor: f32, x: &[f32], x_stride: usize) {
    if out_stride == 1 && x_stride == 1 {
        for (out, x) in out.iter_mut().zip(x) {
            *out += factor * x;
        }
        return;
    }
    for (out, x) in out.iter_mut().step_by(out_stride.max(1)).zip(x.iter().step_by(x_stride.max(1))) {
        *out += factor * x;
    }
}

/// Packs a panel with windows as columns and `(channel, tap)` as terms.
#[inline(always)]
fn pack_windows<L: Lanes>(window: &Window, image: &[f32], place: PanelRange, panel: &mut Panel<L>) {
    let [height, width] = window.axes;
    let (channel, tap) = split(place.term, window.taps());
    let (mut i, mut j) = split(tap, width.kernel);
    let (y, x) = split(place.column, width.output);
    let (top, left) = (height.at(y, 0), width.at(x, 0));
    // Adjacent windows of one row are copied together if all their taps are inside the image.
    let reach = (width.kernel.wrapping_sub(1)).wrapping_mul(width.dilation).wrapping_add(L::COUNT);
    let is_inside = left < width.input && width.input.wrapping_sub(left) >= reach;
    let together = width.stride == 1 && is_inside && x.wrapping_add(place.columns) <= width.output;
    let mut image = image.get(channel.wrapping_mul(window.area())..).unwrap_or_default();
    let mut rest = panel.get_mut(..place.terms).unwrap_or_default();
    // One row of taps at a time.
    while !rest.is_empty() {
        let count = width.kernel.wrapping_sub(j).clamp(1, rest.len());
        let Some((here, behind)) = rest.split_at_mut_checked(count) else { break };
        let (down, right) = (i.wrapping_mul(height.dilation), j.wrapping_mul(width.dilation));
        if together {
            let row = line(window, image, top.wrapping_add(down));
            let mut at = left.wrapping_add(right);
            for lanes in here {
                *lanes = row.get(at..).and_then(L::first_of).copied().unwrap_or(L::ZERO);
                at = at.wrapping_add(width.dilation);
            }
        } else {
            let (mut y, mut x) = (y, x);
            for lane in 0..place.columns {
                let row = line(window, image, height.at(y, i));
                let mut at = width.at(x, j);
                for lanes in &mut *here {
                    if let Some(value) = lanes.as_mut().get_mut(lane) {
                        *value = row.get(at).copied().unwrap_or(0.0);
                    }
                    at = at.wrapping_add(width.dilation);
                }
                x = x.wrapping_add(1);
                if x == width.output {
                    (y, x) = (y.wrapping_add(1), 0);
                }
            }
        }
        (rest, j) = (behind, 0);
        i = i.wrapping_add(1);
        if i >= height.kernel {
            i = 0;
            image = image.get(window.area()..).unwrap_or_default();
        }
    }
}
