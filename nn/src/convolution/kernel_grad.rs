//! Gradient of a convolution with respect to its kernel.

use super::line;
use crate::product::side_by_side;
use crate::sum::BLOCK;
use crate::tile::{Lanes, Panel, PanelRange, Rows, Strided};
use crate::window::{Window, split};
use crate::{Error, check};

/// Computes the gradient of [`forward`](super::forward) with respect to its kernel, from the gradient `dy`
/// `[outputs, *windows]` and the image `x` `[channels, H, W]`. Writes `out` `[outputs, channels / groups, *taps]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
#[inline(always)]
pub fn kernel_grad<L: Lanes>(window: &Window, dy: &[f32], x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    check(dy.len() == window.output_len() && x.len() == window.input_len() && out.len() == window.kernel_len())?;
    let rows = window.group_outputs();
    let parts = out.chunks_mut(rows.wrapping_mul(window.output_taps()).max(1));
    for (group, out) in parts.enumerate() {
        of_outputs::<L>(window, group, (group.wrapping_mul(rows), rows), (dy, x), out);
    }
    Ok(())
}

/// Computes [`kernel_grad`] in parts and passes them to `take` in order. A part has as many outputs of a group as fit
/// in `part`, and at least one.
///
/// # Errors
///
/// As for [`kernel_grad`]. Also fails if `part` is too small for one output.
#[inline(always)]
pub fn kernel_grad_in_parts<L: Lanes>(
    window: &Window,
    dy: &[f32],
    x: &[f32],
    part: &mut [f32],
    mut take: impl FnMut(&[f32]),
) -> Result<(), Error> {
    let (outputs, of_output) = (window.group_outputs(), window.output_taps());
    check(dy.len() == window.output_len() && x.len() == window.input_len() && part.len() >= of_output)?;
    let at_once = part.len().checked_div(of_output).unwrap_or(0).max(1);
    for group in 0..window.groups {
        for first in (0..outputs).step_by(at_once) {
            let rows = at_once.min(outputs - first);
            let part = part.get_mut(..rows.wrapping_mul(of_output)).unwrap_or_default();
            of_outputs::<L>(window, group, (group.wrapping_mul(outputs).wrapping_add(first), rows), (dy, x), part);
            take(part);
        }
    }
    Ok(())
}

/// Computes the gradient of the kernels of `rows` outputs of a group, starting at output `first`.
#[inline(always)]
fn of_outputs<L: Lanes>(
    window: &Window,
    group: usize,
    (first, rows): (usize, usize),
    (dy, x): (&[f32], &[f32]),
    out: &mut [f32],
) {
    let (positions, columns) = (window.positions(), window.output_taps());
    let image = group.wrapping_mul(window.group_channels()).wrapping_mul(window.area());
    let taps = Taps { window, image: x.get(image..).unwrap_or_default() };
    let dy = dy.get(first.wrapping_mul(positions)..).unwrap_or_default();
    let dy = Strided { x: dy, row_stride: positions, term_stride: 1 };
    // The gradients of outputs are contiguous and are read in place. The taps are packed once for all outputs.
    side_by_side::<L>(positions, (&dy, rows, columns), (&taps, columns, 1), out);
}

/// Image elements under the taps of a kernel. A row is `(channel, tap)`, a term is a window.
struct Taps<'a> {
    window: &'a Window,
    image: &'a [f32],
}

impl Taps<'_> {
    /// Passes `count` elements of row `row`, starting at term `first`, to `take`.
    #[inline(always)]
    fn each(&self, row: usize, first: usize, count: usize, mut take: impl FnMut(f32)) {
        let [height, width] = self.window.axes;
        let (channel, tap) = split(row, self.window.taps());
        let (i, j) = split(tap, width.kernel);
        let image = self.image.get(channel.wrapping_mul(self.window.area())..).unwrap_or_default();
        let (mut y, mut x) = split(first, width.output);
        let mut rest = count;
        while rest > 0 {
            let count = width.output.wrapping_sub(x).clamp(1, rest);
            let row = line(self.window, image, height.at(y, i));
            let mut at = width.at(x, j);
            for _ in 0..count {
                take(row.get(at).copied().unwrap_or(0.0));
                at = at.wrapping_add(width.stride);
            }
            rest = rest.wrapping_sub(count);
            (y, x) = (y.wrapping_add(1), 0);
        }
    }
}

impl Rows for Taps<'_> {
    #[inline(always)]
    fn block<'b>(&'b self, row: usize, first: usize, count: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32] {
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        let mut values = buffer.iter_mut();
        self.each(
            row,
            first,
            count,
            #[inline(always)]
            |value| {
                if let Some(out) = values.next() {
                    *out = value;
                }
            },
        );
        buffer
    }

    #[inline(always)]
    fn pack<L: Lanes>(&self, place: PanelRange, panel: &mut Panel<L>) {
        for lane in 0..place.columns {
            let mut lanes = panel.iter_mut();
            self.each(
                place.column.wrapping_add(lane),
                place.term,
                place.terms,
                #[inline(always)]
                |value| {
                    if let Some(out) = lanes.next().and_then(|lanes| lanes.as_mut().get_mut(lane)) {
                        *out = value;
                    }
                },
            );
        }
    }
}
