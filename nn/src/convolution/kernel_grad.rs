//! Gradient of a convolution with respect to its kernel.

use super::line;
use crate::product::side_by_side;
use crate::tile::{Columns, Lanes, Panel, PanelRange, Strided};
use crate::window::{Window, split};
use crate::{Error, check};

/// Computes the gradient of [`forward`](super::forward) with respect to its kernel, from the gradient `dy`
/// `[outputs, *windows]` and the image `x` `[channels, H, W]`. Writes `out` `[outputs, channels / groups, *taps]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, convolution::kernel_grad};
///
/// let axis = Axis { input: 4, output: 3, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 2];
/// kernel_grad::<Narrow>(&window, &[1.0; 3], &[1.0, 2.0, 4.0, 8.0], &mut out)?;
/// assert_eq!(out, [7.0, 14.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, convolution::kernel_grad_in_parts};
///
/// // Two outputs, and room for the gradient of one.
/// let axis = Axis { input: 4, output: 3, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 2, 1, [Axis::POINT, axis]).unwrap();
/// let (dy, mut part, mut all) = ([1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [0.0; 2], vec![]);
/// kernel_grad_in_parts::<Narrow>(&window, &dy, &[1.0, 2.0, 4.0, 8.0], &mut part, |part| all.extend_from_slice(part))?;
/// assert_eq!(all, [7.0, 14.0, 14.0, 28.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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

/// Image elements under the taps of a kernel. A column is `(channel, tap)`, a term is a window.
struct Taps<'a> {
    window: &'a Window,
    image: &'a [f32],
}

impl Columns for Taps<'_> {
    #[inline(always)]
    fn pack<L: Lanes>(&self, place: PanelRange, panel: &mut Panel<L>) {
        let [height, width] = self.window.axes;
        for lane in 0..place.columns {
            let (channel, tap) = split(place.column.wrapping_add(lane), self.window.taps());
            let (i, j) = split(tap, width.kernel);
            let image = self.image.get(channel.wrapping_mul(self.window.area())..).unwrap_or_default();
            let (mut y, mut x) = split(place.term, width.output);
            let mut rest = panel.get_mut(..place.terms).unwrap_or_default();
            // One row of windows at a time.
            while !rest.is_empty() {
                let count = width.output.wrapping_sub(x).clamp(1, rest.len());
                let Some((here, behind)) = rest.split_at_mut_checked(count) else { break };
                let row = line(self.window, image, height.at(y, i));
                let mut at = width.at(x, j);
                for lanes in here {
                    if let Some(value) = lanes.as_mut().get_mut(lane) {
                        *value = row.get(at).copied().unwrap_or(0.0);
                    }
                    at = at.wrapping_add(width.stride);
                }
                (rest, y, x) = (behind, y.wrapping_add(1), 0);
            }
        }
    }
}
