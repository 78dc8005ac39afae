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
//! Each computes several windows, entries or taps at once, [`Narrow`](crate::Narrow) on a microcontroller and [`Wide`](crate::Wide) on a
//! processor with vectors, with the same bits. A line is a plane of height 1 ([`Axis::POINT`](crate::Axis::POINT)).

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

    /// `[*taps, channels / groups, outputs]`: the order in which [`transposed`] reads.
    #[must_use]
    pub fn taps_first(window: &Window) -> Self {
        let tap = window.group_channels().wrapping_mul(window.outputs);
        Self { output: 1, channel: window.outputs, tap }
    }
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
