//! Windows of convolutions and pools in one and two dimensions.

use crate::walk::elements;
use core::ops::Range;

/// One axis of an image, and the windows along it.
///
/// ```
/// use damper_nn::Axis;
///
/// // Three windows of three taps each, at a distance of two, over seven elements.
/// let axis = Axis { input: 7, output: 3, kernel: 3, stride: 2, ..Axis::POINT };
/// assert_eq!((axis.dilation, axis.before), (1, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Axis {
    /// Extent of the image.
    pub input: usize,
    /// Number of windows.
    pub output: usize,
    /// Number of taps of a window.
    pub kernel: usize,
    /// Distance between windows.
    pub stride: usize,
    /// Distance between taps.
    pub dilation: usize,
    /// Padding before the image.
    pub before: usize,
}

impl Axis {
    /// Axis with one element and one window. It is the first axis of an image of one dimension.
    pub const POINT: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 };

    /// Returns the index of tap `tap` of window `window`. Outside the image, it is not less than the extent.
    #[inline(always)]
    pub(crate) fn at(&self, window: usize, tap: usize) -> usize {
        window.wrapping_mul(self.stride).wrapping_add(tap.wrapping_mul(self.dilation)).wrapping_sub(self.before)
    }

    /// Returns the window that has tap `tap` at `at`, if any.
    #[cfg(test)]
    pub(crate) fn window(&self, at: usize, tap: usize) -> Option<usize> {
        let way = at.wrapping_add(self.before).checked_sub(tap.wrapping_mul(self.dilation))?;
        let window = way.checked_div(self.stride)?;
        (way.checked_rem(self.stride)? == 0 && window < self.output).then_some(window)
    }

    /// Returns the windows that have tap `tap` inside the image.
    #[inline(always)]
    pub(crate) fn windows_inside(&self, tap: usize) -> Range<usize> {
        let reach = tap.wrapping_mul(self.dilation);
        let first = self.before.saturating_sub(reach).div_ceil(self.stride.max(1)).min(self.output);
        let end = self.input.wrapping_add(self.before).saturating_sub(reach).div_ceil(self.stride.max(1));
        first..end.clamp(first, self.output)
    }

    fn is_sound(&self) -> bool {
        const MOST: usize = usize::MAX / 8;
        let way = |count: usize, step: usize| count.checked_mul(step).is_some_and(|way| way < MOST);
        let extents = [self.input, self.before, self.kernel, self.stride, self.dilation];
        self.stride > 0
            && self.dilation > 0
            && extents.iter().all(|extent| *extent < MOST)
            && way(self.output, self.stride)
            && way(self.kernel, self.dilation)
    }
}

/// Windows over the channels of an image, in groups. A window of a group reads the channels of that group.
/// [`Window::new`] checks it.
///
/// ```
/// use damper_nn::{Axis, Window};
///
/// // A convolution from 8 channels of 28×28 to 16 of 26×26, with 3×3 taps.
/// let axis = Axis { input: 28, output: 26, kernel: 3, ..Axis::POINT };
/// let window = Window::new(8, 16, 1, [axis, axis]).unwrap();
/// assert_eq!((window.input_len(), window.output_len()), (8 * 28 * 28, 16 * 26 * 26));
/// assert_eq!((window.kernel_len(), window.output_taps(), window.group_outputs()), (16 * 8 * 9, 8 * 9, 16));
/// assert_eq!(Window::over(8, 16, 1, &[axis, axis]), Some(window));
/// let lists: [&[usize]; 6] = [&[28, 28], &[26, 26], &[3, 3], &[1, 1], &[1, 1], &[0, 0]];
/// assert_eq!(Window::of_lists(8, 16, 1, lists), Some(window));
/// assert!(Window::new(8, 16, 3, [axis, axis]).is_none(), "three groups do not divide 8 channels");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Window {
    /// Channels of the image.
    pub channels: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Groups of channels.
    pub groups: usize,
    /// Height and width.
    pub axes: [Axis; 2],
}

impl Window {
    /// Creates the windows from an image `[channels, height, width]` to `[outputs, *windows]`.
    ///
    /// Returns `None` if `groups` does not divide both channel counts, a stride or dilation is 0, or a size overflows.
    #[must_use]
    pub fn new(channels: usize, outputs: usize, groups: usize, axes: [Axis; 2]) -> Option<Self> {
        let [height, width] = axes;
        let divides = channels.checked_rem(groups)? == 0 && outputs.checked_rem(groups)? == 0;
        elements(&[channels, height.input, width.input])?;
        elements(&[outputs, height.output, width.output])?;
        elements(&[outputs, channels, height.kernel, width.kernel])?;
        (divides && height.is_sound() && width.is_sound()).then_some(Self { channels, outputs, groups, axes })
    }

    /// Creates windows as [`Window::new`] does, from one or two axes. `None` for any other number of axes.
    #[must_use]
    pub fn over(channels: usize, outputs: usize, groups: usize, axes: &[Axis]) -> Option<Self> {
        match *axes {
            [line] => Self::new(channels, outputs, groups, [Axis::POINT, line]),
            [height, width] => Self::new(channels, outputs, groups, [height, width]),
            _ => None,
        }
    }

    /// Creates windows as [`Window::over`] does, from one list per field of [`Axis`], in the order of its fields. A
    /// list has one value per axis.
    #[must_use]
    pub fn of_lists(channels: usize, outputs: usize, groups: usize, lists: [&[usize]; 6]) -> Option<Self> {
        let [inputs, ..] = lists;
        let mut axes = [Axis::POINT; 2];
        for (at, axis) in axes.iter_mut().enumerate().take(inputs.len()) {
            let [input, output, kernel, stride, dilation, before] = lists.map(|list| list.get(at).copied());
            *axis = Axis {
                input: input?,
                output: output?,
                kernel: kernel?,
                stride: stride?,
                dilation: dilation?,
                before: before?,
            };
        }
        Self::over(channels, outputs, groups, axes.get(..inputs.len())?)
    }

    /// Returns the number of elements in a channel of the image.
    #[inline(always)]
    pub(crate) fn area(&self) -> usize {
        let [height, width] = self.axes;
        height.input.wrapping_mul(width.input)
    }

    /// Returns the number of windows in a channel.
    #[inline(always)]
    pub(crate) fn positions(&self) -> usize {
        let [height, width] = self.axes;
        height.output.wrapping_mul(width.output)
    }

    /// Returns the number of taps of a window in a channel.
    #[inline(always)]
    pub(crate) fn taps(&self) -> usize {
        let [height, width] = self.axes;
        height.kernel.wrapping_mul(width.kernel)
    }

    /// Returns the number of weights of one output.
    #[inline(always)]
    #[must_use]
    pub fn output_taps(&self) -> usize {
        self.group_channels().wrapping_mul(self.taps())
    }

    /// Returns the number of image channels that a window reads.
    #[inline(always)]
    pub(crate) fn group_channels(&self) -> usize {
        self.channels.checked_div(self.groups).unwrap_or(0)
    }

    /// Returns the number of output channels in a group.
    #[inline(always)]
    #[must_use]
    pub fn group_outputs(&self) -> usize {
        self.outputs.checked_div(self.groups).unwrap_or(0)
    }

    /// Returns the number of elements of the image `[channels, height, width]`.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.channels.wrapping_mul(self.area())
    }

    /// Returns the number of elements of the output `[outputs, *windows]`.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.outputs.wrapping_mul(self.positions())
    }

    /// Returns the number of elements of the kernel `[outputs, channels / groups, *taps]`.
    #[must_use]
    pub fn kernel_len(&self) -> usize {
        self.outputs.wrapping_mul(self.group_channels()).wrapping_mul(self.taps())
    }

    /// Returns the index of tap `(i, j)` of window `(y, x)` in a channel, if it is inside the image.
    #[inline(always)]
    pub(crate) fn inside(&self, (y, x): (usize, usize), (i, j): (usize, usize)) -> Option<usize> {
        let [height, width] = self.axes;
        let (row, column) = (height.at(y, i), width.at(x, j));
        (row < height.input && column < width.input).then(|| row.wrapping_mul(width.input).wrapping_add(column))
    }
}

/// Splits a flat index into row and column, for rows of `columns` elements.
#[inline(always)]
pub(crate) fn split(flat: usize, columns: usize) -> (usize, usize) {
    (flat.checked_div(columns).unwrap_or(0), flat.checked_rem(columns).unwrap_or(0))
}
