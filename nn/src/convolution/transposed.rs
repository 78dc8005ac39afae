//! Transposed convolution: the gradient of a convolution with respect to its image.

use super::KernelStrides;
use super::forward::add_scaled;
use crate::sum::BLOCK;
use crate::tile::{Lanes, Rows, Strided, Wide};
use crate::window::Window;
use crate::{Error, check};

/// Computes a transposed convolution, which is the gradient of [`forward`](super::forward) with respect to its image.
///
/// Reads `y` `[outputs, *windows]`, `kernel` and `bias` `[channels]`. Writes `out` `[channels, H, W]`. On a processor
/// with SIMD, [`KernelStrides::taps_first`] is fastest.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Narrow, Window, convolution::{KernelStrides, transposed}};
///
/// // The gradient of a sum of differences of neighbours.
/// let axis = Axis { input: 4, output: 3, kernel: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 4];
/// let strides = KernelStrides::onnx(&window);
/// transposed::<Narrow>(&window, &[1.0; 3], &[-1.0, 1.0], strides, None, &mut out)?;
/// assert_eq!(out, [-1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn transposed<L: Lanes>(
    window: &Window,
    y: &[f32],
    kernel: &[f32],
    strides: KernelStrides,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check(kernel.len() == window.kernel_len())?;
    transposed_by::<L, _>(
        window,
        y,
        #[inline(always)]
        |output, tap| Strided {
            x: kernel.get(strides.at(output, tap)..).unwrap_or_default(),
            row_stride: strides.channel,
            term_stride: strides.output,
        },
        bias,
        out,
    )
}

/// Computes [`transposed`] with the kernel from `weights`. It returns the weights from an output and a tap on. Rows are
/// channels of the group, terms are outputs.
///
/// # Errors
///
/// As for [`transposed`].
#[inline(always)]
pub(crate) fn transposed_by<L: Lanes, R: Rows>(
    window: &Window,
    y: &[f32],
    weights: impl Fn(usize, usize) -> R,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    check(y.len() == window.output_len() && out.len() == window.input_len())?;
    check(bias.is_none_or(|bias| bias.len() == window.channels))?;
    out.fill(0.0);
    let [_, width] = window.axes;
    let (positions, outputs, channels) = (window.positions(), window.group_outputs(), window.group_channels());
    let area = window.area();
    // Does not zip chunks: compiled for size, their division may keep a panic.
    for (group, out) in out.chunks_mut(channels.wrapping_mul(area).max(1)).enumerate() {
        let first = group.wrapping_mul(outputs);
        let start = first.wrapping_mul(positions);
        let y = y.get(start..start.wrapping_add(outputs.wrapping_mul(positions))).unwrap_or_default();
        let (mut i, mut j) = (0, 0);
        for tap in 0..window.taps() {
            let weights = weights(first, tap);
            if outputs == 1 && channels == 1 {
                plane(window, y, &weights, (i, j), out);
            } else {
                add_tap::<L>(window, y, &weights, (i, j), out);
            }
            j += 1;
            if j == width.kernel {
                (i, j) = (i + 1, 0);
            }
        }
    }
    if let Some(bias) = bias {
        for (channel, out) in out.chunks_mut(area.max(1)).enumerate() {
            if let Some(bias) = bias.get(channel) {
                out.iter_mut().for_each(|out| *out += bias);
            }
        }
    }
    Ok(())
}

/// Adds the contribution of tap `(i, j)` from one output to one channel.
///
/// The sum over the outputs is this single term. An entry that begins at +0 is never −0, so adding the term has the
/// same bits as adding `+0 + term`.
#[inline(always)]
fn plane(window: &Window, y: &[f32], weights: &impl Rows, (i, j): (usize, usize), out: &mut [f32]) {
    let [height, width] = window.axes;
    let mut buffer = [0.0f32; BLOCK];
    let Some(weight) = weights.block(0, 0, 1, &mut buffer).first() else { return };
    let columns = width.windows_inside(j);
    for (row, y) in y.chunks(width.output.max(1)).enumerate() {
        let (at, y) = (height.at(row, i), y.get(columns.clone()).unwrap_or_default());
        if at < height.input {
            let start = at.wrapping_mul(width.input);
            let line = out.get_mut(start..start.wrapping_add(width.input)).unwrap_or_default();
            let line = line.get_mut(width.at(columns.start, j)..).unwrap_or_default();
            add_scaled(line, width.stride, *weight, y, 1);
        }
    }
}

/// Adds the contribution of tap `(i, j)` to the channels of a group.
#[inline(always)]
fn add_tap<L: Lanes>(window: &Window, y: &[f32], weights: &impl Rows, (i, j): (usize, usize), out: &mut [f32]) {
    let [height, width] = window.axes;
    let (positions, outputs) = (window.positions(), window.group_outputs());
    let mut buffer = [0.0f32; BLOCK];
    let (mut row, mut x) = (0, 0);
    for column in (0..positions).step_by(L::COUNT) {
        let columns = L::COUNT.min(positions - column);
        // Index in a channel that the tap meets, for each window. `usize::MAX` if the tap is outside the image.
        let mut places = [usize::MAX; Wide::COUNT];
        let mut meets = false;
        for place in places.iter_mut().take(columns) {
            let (down, right) = (height.at(row, i), width.at(x, j));
            if down < height.input && right < width.input {
                *place = down.wrapping_mul(width.input).wrapping_add(right);
                meets = true;
            }
            x += 1;
            if x == width.output {
                (row, x) = (row + 1, 0);
            }
        }
        if !meets {
            continue;
        }
        for (channel, out) in out.chunks_mut(window.area().max(1)).enumerate() {
            let mut whole = L::ZERO;
            for term in (0..outputs).step_by(BLOCK) {
                let factors = weights.block(channel, term, BLOCK.min(outputs - term), &mut buffer);
                let at = term.wrapping_mul(positions).wrapping_add(column);
                let sums = block_of_outputs::<L>(factors, y.get(at..).unwrap_or_default(), positions);
                if outputs <= BLOCK {
                    whole = sums;
                    break;
                }
                whole.as_mut().iter_mut().zip(sums.as_ref()).for_each(|(whole, sum)| *whole += sum);
            }
            for (place, sum) in places.iter().zip(whole.as_ref()) {
                if let Some(out) = out.get_mut(*place) {
                    *out += sum;
                }
            }
        }
    }
}

/// Returns the sums over a block of outputs. `y` begins at the first window of the lanes. The next output is
/// `positions` later.
#[inline(always)]
fn block_of_outputs<L: Lanes>(factors: &[f32], y: &[f32], positions: usize) -> L {
    let (mut sums, mut at) = (L::ZERO, 0);
    for factor in factors {
        let rest = y.get(at..).unwrap_or_default();
        match L::first_of(rest) {
            Some(columns) => sums.add_product(*factor, columns),
            // The last windows of the last output.
            None => {
                let mut columns = L::ZERO;
                columns.as_mut().iter_mut().zip(rest).for_each(|(column, y)| *column = *y);
                sums.add_product(*factor, &columns);
            }
        }
        at = at.wrapping_add(positions);
    }
    sums
}

impl KernelStrides {
    /// Returns the index of output `output` and tap `tap` in a group's first channel.
    #[inline(always)]
    pub(crate) fn at(&self, output: usize, tap: usize) -> usize {
        output.wrapping_mul(self.output).wrapping_add(tap.wrapping_mul(self.tap))
    }
}
