//! Geometry of convolutions and pools: sliding windows over the spatial axes.

use super::emit::{Emitter, Var};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{make_attr_int, make_attr_ints};

/// Windows over spatial axes. Every list has one entry per axis.
#[derive(Clone, PartialEq, Debug)]
pub struct SlidingWindow {
    /// Extents of the input.
    pub input: Vec<usize>,
    /// Number of windows.
    pub output: Vec<usize>,
    /// Elements of a window.
    pub kernel: Vec<usize>,
    /// Distance between windows.
    pub stride: Vec<usize>,
    /// Distance between elements of a window.
    pub dilation: Vec<usize>,
    /// Padding before the first element.
    pub before: Vec<usize>,
    /// Declared padding after the last element. Windows of a ceil-mode pool may reach further.
    pub after: Vec<usize>,
}

impl SlidingWindow {
    /// Extents, windows, elements, strides, dilations and padding before: the lists that determine the elements of each
    /// window.
    pub fn lists(&self) -> [&[usize]; 6] {
        [&self.input, &self.output, &self.kernel, &self.stride, &self.dilation, &self.before]
    }

    /// The same windows one axis at a time, from the last to the first. The last axis applies to the input, and each
    /// other axis to the previous result.
    pub fn by_axis(&self) -> Vec<Self> {
        let one = |axis: usize| {
            let alone = |list: &[usize], otherwise: usize| -> Vec<usize> {
                (0..list.len()).map(|i| if i == axis { list[i] } else { otherwise }).collect()
            };
            Self {
                input: [&self.input[..=axis], &self.output[axis + 1..]].concat(),
                output: [&self.input[..axis], &self.output[axis..]].concat(),
                kernel: alone(&self.kernel, 1),
                stride: alone(&self.stride, 1),
                dilation: alone(&self.dilation, 1),
                before: alone(&self.before, 0),
                after: alone(&self.after, 0),
            }
        };
        (0..self.input.len()).rev().map(one).filter(|window| !window.is_pointwise()).collect()
    }

    /// Elements of a window.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Number of windows.
    pub fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// Extent from the first padded element to the end of the last window.
    fn reach(&self, i: usize) -> usize {
        (self.output[i] - 1) * self.stride[i] + (self.kernel[i] - 1) * self.dilation[i] + 1
    }

    /// Padding that the windows touch, for a tensor `[N, C, *input]`.
    fn touched_padding(&self) -> Vec<(usize, usize)> {
        let spatial = (0..self.input.len())
            .map(|i| (self.before[i], self.reach(i).saturating_sub(self.input[i] + self.before[i])));
        [(0, 0), (0, 0)].into_iter().chain(spatial).collect()
    }

    /// Padding after the last element for the same number of windows. It equals the padding before if that adds no
    /// window because devices have kernels for equal pads. Otherwise it is the touched padding.
    fn padding_after(&self) -> Vec<usize> {
        let touched = self.touched_padding();
        let after = |i: usize| {
            let touched = touched[i + 2].1;
            let rest = (self.input[i] + 2 * self.before[i]).checked_sub(self.reach(i));
            if rest.is_some_and(|rest| rest < self.stride[i]) { self.before[i] } else { touched }
        };
        (0..self.input.len()).map(after).collect()
    }

    /// Returns true if windows tile the input exactly, without padding, overlap or remainder.
    pub fn tiles(&self) -> bool {
        (0..self.input.len()).all(|i| {
            self.dilation[i] == 1
                && self.before[i] == 0
                && self.stride[i] == self.kernel[i]
                && self.input[i] == self.output[i] * self.kernel[i]
        })
    }

    /// Axis along which windows have two elements and overlap their neighbours in one element, without padding or
    /// remainder.
    pub fn pairs(&self) -> Option<usize> {
        let axis = self.kernel.iter().position(|&k| k > 1)?;
        let fits = |i: usize| {
            let kernel = if i == axis { 2 } else { 1 };
            self.kernel[i] == kernel
                && self.stride[i] == 1
                && self.dilation[i] == 1
                && self.before[i] == 0
                && self.input[i] == self.output[i] + kernel - 1
        };
        (0..self.input.len()).all(fits).then_some(axis)
    }

    /// Returns true if every window is a single element and they cover the input in order.
    pub fn is_pointwise(&self) -> bool {
        self.taps() == 1 && self.input == self.output && self.before.iter().all(|&b| b == 0)
    }

    /// Offsets of each tap within the window, in row-major order.
    pub fn offsets(&self) -> Vec<Vec<usize>> {
        let mut offsets = vec![vec![]];
        for (&k, &d) in self.kernel.iter().zip(&self.dilation) {
            offsets = offsets.iter().flat_map(|o| (0..k).map(move |j| [&o[..], &[j * d]].concat())).collect();
        }
        offsets
    }

    /// Pads `x: [N, C, *input]` with `value` so that every window is inside. In this file `N` may be merged with
    /// positions.
    pub fn padded(&self, em: &mut Emitter, x: &Var, value: f64) -> Var {
        em.pad(x, &self.touched_padding(), value)
    }

    /// Element of each window at `offset`, from a padded tensor: `[N, C, *output]`.
    pub fn tap(&self, em: &mut Emitter, padded: &Var, offset: &[usize]) -> Var {
        let axes: Vec<_> = (0..offset.len()).map(|i| (i + 2, offset[i], self.stride[i], self.output[i])).collect();
        em.slice(padded, &axes)
    }

    /// Maximum under each window: `[N, C, *output]`.
    pub fn largest(&self, em: &mut Emitter, x: &Var) -> Var {
        let padded = self.padded(em, x, f64::NEG_INFINITY);
        let attributes = vec![
            make_attr_ints("kernel_shape", &as_i64(&self.kernel)),
            make_attr_ints("strides", &as_i64(&self.stride)),
            make_attr_ints("dilations", &as_i64(&self.dilation)),
        ];
        let shape = [&padded.shape[..2], &self.output[..]].concat();
        em.node("MaxPool", &[&padded], attributes, x.dtype, shape, x.batch)
    }

    /// Row-major indices into the padded spatial axes: for each window, each tap.
    pub fn gather_indices(&self) -> Vec<i64> {
        let padding = self.touched_padding();
        let extent: Vec<usize> =
            (0..self.input.len()).map(|i| self.input[i] + padding[i + 2].0 + padding[i + 2].1).collect();
        let offsets = self.offsets();
        let mut indices = Vec::with_capacity(self.positions() * self.taps());
        for position in 0..self.positions() {
            let mut rest = position;
            let mut corner = vec![0; extent.len()];
            for i in (0..extent.len()).rev() {
                corner[i] = rest % self.output[i] * self.stride[i];
                rest /= self.output[i];
            }
            for offset in &offsets {
                let index = (0..extent.len()).fold(0, |acc, i| acc * extent[i] + corner[i] + offset[i]);
                indices.push(index as i64);
            }
        }
        indices
    }

    /// Transposed convolution of `gy: [N, O, *output]` with `w: [O, C/g, *kernel]`, in the shape of the input.
    pub fn conv_transpose(&self, em: &mut Emitter, gy: &Var, w: &Var, groups: usize) -> Var {
        let rank = self.input.len();
        // Parts of windows beyond the input are cropped. Input that no window reaches gets zeros.
        let after: Vec<usize> =
            (0..rank).map(|i| self.reach(i).saturating_sub(self.before[i] + self.input[i])).collect();
        let unreached: Vec<usize> =
            (0..rank).map(|i| (self.input[i] + self.before[i]).saturating_sub(self.reach(i))).collect();
        let mut attributes = self.attributes(&after);
        attributes.push(make_attr_int("group", groups as i64));
        if unreached.iter().any(|&u| u > 0) {
            attributes.push(make_attr_ints("output_padding", &as_i64(&unreached)));
        }
        let shape = [&[gy.shape[0], w.shape[1] * groups], &self.input[..]].concat();
        em.node("ConvTranspose", &[gy, w], attributes, gy.dtype, shape, gy.batch)
    }

    /// Convolution of `x: [N, C, *input]` with `w: [O, C/g, *kernel]`.
    pub fn conv(&self, em: &mut Emitter, x: &Var, w: &Var, groups: usize) -> Var {
        let (x, window) = self.thinned(em, x);
        let mut attributes = window.attributes(&window.padding_after());
        attributes.push(make_attr_int("group", groups as i64));
        let shape = [&[x.shape[0], w.shape[0]], &self.output[..]].concat();
        em.node("Conv", &[&x, w], attributes, x.dtype, shape, x.batch)
    }

    /// Removes the elements of `x` that no window reads because of the strides, and returns the windows over the rest.
    /// Otherwise tract removes these elements itself, and cannot if `x` is a reshaped tensor.
    fn thinned(&self, em: &mut Emitter, x: &Var) -> (Var, Self) {
        let (mut x, mut window) = (x.clone(), self.clone());
        for i in 0..self.input.len() {
            let (stride, dilation) = (self.stride[i], if self.kernel[i] == 1 { 0 } else { self.dilation[i] });
            let is_padded = self.before[i] > 0 || self.reach(i) > self.input[i];
            if stride == 1 || is_padded || !dilation.is_multiple_of(stride) {
                continue;
            }
            let read: Vec<i64> = (0..self.reach(i)).step_by(stride).map(|at| at as i64).collect();
            x = em.gather(&x, &read, i + 2);
            window.input[i] = read.len();
            window.stride[i] = 1;
            window.dilation[i] = (dilation / stride).max(1);
        }
        (x, window)
    }

    /// Unfolds patches `[N, C·taps, *output]` by a depthwise convolution with one-hot kernels. The lines of a single
    /// plane are gathered first, so that the kernels only have the taps of one line.
    pub fn unfold_by_conv(&self, em: &mut Emitter, x: &Var) -> Var {
        let channels = x.shape[1];
        if let ([lines, _], 1) = (&self.kernel[..], channels)
            && *lines > 1
        {
            let padded = self.padded(em, x, 0.0);
            let (height, width) = (self.output[0], padded.shape[3]);
            let (stride, dilation) = (self.stride[0], self.dilation[0]);
            let line = |tap: usize| (0..height).map(move |at| (at * stride + tap * dilation) as i64);
            let gathered = em.gather(&padded, &(0..*lines).flat_map(line).collect::<Vec<_>>(), 2);
            let by_line = em.reshape(&gathered, &[x.shape[0], *lines, height, width], x.batch);
            let along = Self {
                input: vec![height, width],
                kernel: vec![1, self.kernel[1]],
                stride: vec![1, self.stride[1]],
                dilation: vec![1, self.dilation[1]],
                before: vec![0, 0],
                after: vec![0, 0],
                ..self.clone()
            };
            return along.unfold_by_conv(em, &by_line);
        }
        let weight = self.one_hot(em, x, channels);
        self.conv(em, x, &weight, channels)
    }

    /// Unfolds patches `[N, positions, taps·C]` by gathering the positions' rows of `C` channels.
    pub fn unfold_by_gather(&self, em: &mut Emitter, x: &Var) -> Var {
        let (rows, channels) = (x.shape[0], x.shape[1]);
        let padded = self.padded(em, x, 0.0);
        let plane: usize = padded.shape[2..].iter().product();
        let planes = em.reshape(&padded, &[rows, channels, plane], padded.batch);
        let by_position = em.transpose(&planes, &[0, 2, 1]);
        let patches = em.gather(&by_position, &self.gather_indices(), 1);
        em.per_sample(&patches, &[rows * self.positions(), self.taps() * channels])
    }

    /// Sums patches `[N, C·taps, *output]` at their positions: the transpose of unfolding.
    pub fn fold(&self, em: &mut Emitter, patches: &Var) -> Var {
        let channels = patches.shape[1] / self.taps();
        let weight = self.one_hot(em, patches, channels);
        self.conv_transpose(em, patches, &weight, channels)
    }

    fn one_hot(&self, em: &mut Emitter, like: &Var, channels: usize) -> Var {
        let taps = self.taps();
        let values = (0..channels * taps * taps).map(|i| if i / taps % taps == i % taps { 1.0 } else { 0.0 });
        em.floats(like.dtype, &[&[channels * taps, 1], &self.kernel[..]].concat(), values)
    }

    fn attributes(&self, after: &[usize]) -> Vec<AttributeProto> {
        vec![
            make_attr_ints("kernel_shape", &as_i64(&self.kernel)),
            make_attr_ints("strides", &as_i64(&self.stride)),
            make_attr_ints("dilations", &as_i64(&self.dilation)),
            make_attr_ints("pads", &as_i64(&[&self.before, after].concat())),
        ]
    }
}

fn as_i64(list: &[usize]) -> Vec<i64> {
    list.iter().map(|&v| v as i64).collect()
}
