//! One- and two-dimensional convolutions of one sample, and their gradients with respect to the image and the kernel.
//!
//! Order of sums (`c` is a channel of the image in its group, `(i, j)` a tap, `o` a channel of the output, `p` a
//! window, row-major):
//!
//! - [`forward`]: over `(c, i, j)`, the last fastest, in the [order of sums](crate::sum). A tap outside the image adds
//!   a term `weight · 0`. The bias is added last.
//! - [`transposed`]: for each tap that meets the entry, a sum over `o` in the order of sums. These sums are added one
//!   after another, in the order of the taps, starting from +0. A tap that meets no window adds no term. The bias is
//!   added last.
//! - [`kernel_grad`]: over `p` in the order of sums. A tap outside the image adds a term `gradient · 0`.
//!
//! Each kernel computes several windows, entries or taps at once: [`Narrow`](crate::Narrow) on a microcontroller and
//! [`Wide`](crate::Wide) on a processor with SIMD, with the same bits. An image of one dimension has height 1
//! ([`Axis::POINT`](crate::Axis::POINT)).

mod forward;
mod kernel_grad;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod transposed;

pub use forward::forward;
pub(crate) use forward::forward_by;
pub use kernel_grad::{kernel_grad, kernel_grad_in_parts};
pub use transposed::transposed;
pub(crate) use transposed::transposed_by;

use crate::window::Window;

/// Strides of a kernel's axes: output channel, image channel of the group, tap.
///
/// ```
/// use damper_nn::{Axis, Window, convolution::KernelStrides};
///
/// let axis = Axis { input: 28, output: 26, kernel: 3, ..Axis::POINT };
/// let window = Window::new(8, 16, 1, [axis, axis]).unwrap();
/// // Of a kernel [outputs, channels, taps], and of one whose taps come first.
/// let (onnx, taps_first) = (KernelStrides::onnx(&window), KernelStrides::taps_first(&window));
/// assert_eq!((onnx.output, onnx.channel, onnx.tap), (72, 9, 1));
/// assert!(taps_first.tap > taps_first.channel);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct KernelStrides {
    /// Distance between output channels.
    pub output: usize,
    /// Distance between image channels of a group.
    pub channel: usize,
    /// Distance between taps.
    pub tap: usize,
}

impl KernelStrides {
    /// Returns the strides of `[outputs, channels / groups, *taps]`, the layout of ONNX.
    #[must_use]
    pub fn onnx(window: &Window) -> Self {
        let taps = window.taps();
        Self { output: window.group_channels().wrapping_mul(taps), channel: taps, tap: 1 }
    }

    /// Returns the strides of `[*taps, channels / groups, outputs]`, the order in which [`transposed`] reads.
    #[must_use]
    pub fn taps_first(window: &Window) -> Self {
        let tap = window.group_channels().wrapping_mul(window.outputs);
        Self { output: 1, channel: window.outputs, tap }
    }
}

/// Returns row `at` of a channel. Empty if the row is outside the image.
#[inline(always)]
pub(crate) fn line<'a>(window: &Window, channel: &'a [f32], at: usize) -> &'a [f32] {
    let [height, width] = window.axes;
    if at >= height.input {
        return &[];
    }
    let start = at.wrapping_mul(width.input);
    channel.get(start..start.wrapping_add(width.input)).unwrap_or_default()
}
