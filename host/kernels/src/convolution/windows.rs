//! Windows over planes, and code shared by all convolution methods.

/// Windows over spatial axes. Every list has one entry per axis.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// Extents of the input.
    pub input: &'a [usize],
    /// Number of windows.
    pub output: &'a [usize],
    /// Elements of a window.
    pub kernel: &'a [usize],
    /// Distance between windows.
    pub stride: &'a [usize],
    /// Distance between elements of a window.
    pub dilation: &'a [usize],
    /// Padding before the first element.
    pub before: &'a [usize],
}

/// Windows over padded planes. A line is a plane of height 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Windows {
    /// Planes of a sample's input.
    pub channels: usize,
    /// Planes of a sample's output.
    pub outputs: usize,
    /// Lines and columns of an input plane. The other arrays have the same order.
    pub input: [usize; 2],
    /// Number of windows along each axis.
    pub output: [usize; 2],
    /// Elements of a window.
    pub kernel: [usize; 2],
    /// Distance between windows.
    pub stride: [usize; 2],
    /// Distance between elements of a window.
    pub dilation: [usize; 2],
    /// Padding before the first line and column.
    pub before: [usize; 2],
}

impl Windows {
    /// Windows with `pads` before and after lines and columns. `None` if they do not fit.
    pub fn new(
        [channels, outputs]: [usize; 2],
        input: [usize; 2],
        pads: [[usize; 2]; 2],
        [kernel, stride, dilation]: [[usize; 2]; 3],
    ) -> Option<Self> {
        let counts = [[channels, outputs], input, kernel, stride, dilation];
        if counts.iter().flatten().any(|count| *count == 0) {
            return None;
        }
        let [before, after] = pads;
        let mut output = [0; 2];
        for (i, output) in output.iter_mut().enumerate() {
            let padded = input[i].checked_add(before[i])?.checked_add(after[i])?;
            let left = padded.checked_sub((kernel[i] - 1).checked_mul(dilation[i])?.checked_add(1)?)?;
            *output = left / stride[i] + 1;
        }
        Some(Self { channels, outputs, input, output, kernel, stride, dilation, before })
    }

    /// Returns the windows of a convolution over one or two axes, and `None` for more axes.
    pub fn over(channels: usize, outputs: usize, axes: Axes<'_>) -> Option<Self> {
        let plane = |list: &[usize], line: usize| match *list {
            [columns] => Some([line, columns]),
            [lines, columns] => Some([lines, columns]),
            _ => None,
        };
        Some(Self {
            channels,
            outputs,
            input: plane(axes.input, 1)?,
            output: plane(axes.output, 1)?,
            kernel: plane(axes.kernel, 1)?,
            stride: plane(axes.stride, 1)?,
            dilation: plane(axes.dilation, 1)?,
            before: plane(axes.before, 0)?,
        })
    }

    /// Number of products per output.
    pub(crate) fn taps(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Index of a tap's weight between a channel and an output, in weights `[O, C, *kernel]`. With `transposed`, the
    /// weights are `[C, O, *kernel]`, flipped.
    pub(super) fn weight(&self, transposed: bool, [channel, output]: [usize; 2], tap: usize) -> usize {
        let of_kernel = self.kernel[0] * self.kernel[1];
        if transposed {
            (channel * self.outputs + output) * of_kernel + of_kernel - 1 - tap
        } else {
            (output * self.channels + channel) * of_kernel + tap
        }
    }

    /// Number of floats in a sample's input and output.
    pub(crate) fn lens(&self) -> [usize; 2] {
        [(self.channels, self.input), (self.outputs, self.output)]
            .map(|(planes, [lines, columns])| planes * lines * columns)
    }
}

/// Replaces the weights in `last` by `weights`. Returns true if they differ: the samples of a step come in several
/// calls with the same weights.
#[inline(always)]
pub(super) fn take(last: &mut Vec<f32>, weights: &[f32]) -> bool {
    // In chunks, so that a difference is found early.
    let same = |(last, new): (&[f32], &[f32])| {
        last.iter().zip(new).fold(0, |unlike, (last, new)| unlike | (last.to_bits() ^ new.to_bits())) == 0
    };
    if last.len() == weights.len() && last.chunks(256).zip(weights.chunks(256)).all(same) {
        return false;
    }
    last.clear();
    last.extend_from_slice(weights);
    true
}

/// Copies lines of `count` floats with the given strides. Short lines are copied in two overlapping parts because a
/// call of memcpy takes longer.
pub(super) fn copy_lines([lines, count]: [usize; 2], from: (&[f32], usize), into: (&mut [f32], usize)) {
    match count {
        0 => {}
        1 => copy_in_two::<1>([lines, count], from, into),
        2..=3 => copy_in_two::<2>([lines, count], from, into),
        4..=8 => copy_in_two::<4>([lines, count], from, into),
        9..=16 => copy_in_two::<8>([lines, count], from, into),
        17..=32 => copy_in_two::<16>([lines, count], from, into),
        _ => {
            for line in 0..lines {
                into.0[line * into.1..][..count].copy_from_slice(&from.0[line * from.1..][..count]);
            }
        }
    }
}

/// Copies by `N` floats, at least half of `count` and at most `count`.
#[inline(always)]
fn copy_in_two<const N: usize>(
    [lines, count]: [usize; 2],
    (from, from_apart): (&[f32], usize),
    (into, into_apart): (&mut [f32], usize),
) {
    for line in 0..lines {
        let (from, into) = (&from[line * from_apart..][..count], &mut into[line * into_apart..][..count]);
        *into.first_chunk_mut::<N>().expect("a piece") = *from.first_chunk().expect("a piece");
        *into.last_chunk_mut::<N>().expect("a piece") = *from.last_chunk().expect("a piece");
    }
}
