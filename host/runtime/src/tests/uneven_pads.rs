//! Convolutions with different pads at the two ends of an axis, as a device runs them.

use super::*;
use damper_onnx::make_pads_symmetric;

/// One axis of a convolution.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
    extra: usize,
}

impl Axis {
    /// Axis of extent 1, without convolution.
    const FLAT: Self = Self { input: 1, kernel: 1, stride: 1, dilation: 1, pads: [0, 0], extra: 0 };

    /// Extent of a window, including dilation.
    fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Extent of the output, if it is valid.
    fn output(&self, is_transposed: bool) -> Option<usize> {
        let pads = self.pads[0] + self.pads[1];
        let extent = match is_transposed {
            true => ((self.input - 1) * self.stride + self.reach() + self.extra).checked_sub(pads),
            false => (self.input + pads).checked_sub(self.reach()).map(|rest| rest / self.stride + 1),
        };
        extent.filter(|extent| *extent > 0)
    }
}

/// All combinations of kernels 1 to 4, strides 1 to 3, dilations 1 and 2, and pads 0 to 2 at each end. Each with and
/// without output padding.
fn axes(input: usize, is_transposed: bool) -> Vec<Axis> {
    let mut axes = vec![];
    for index in 0..4 * 3 * 2 * 3 * 3 * 2 {
        let mut rest = index;
        let mut digit = |count: usize| (rest % count, rest /= count).0;
        let (kernel, stride, dilation) = (digit(4) + 1, digit(3) + 1, digit(2) + 1);
        let (pads, is_extended) = ([digit(3), digit(3)], digit(2) == 1);
        let extra = if is_extended { stride - 1 } else { 0 };
        let axis = Axis { input, kernel, stride, dilation, pads, extra };
        let is_new = !is_extended || is_transposed && extra > 0;
        axes.extend(axis.output(is_transposed).filter(|_| is_new).map(|_| axis));
    }
    axes
}

/// Channels of the input and of the output.
const CHANNELS: [usize; 2] = [4, 6];

/// `y[o] += x[c] · w`, one element and tap at a time.
fn reference(axes: [Axis; 2], groups: usize, is_transposed: bool, x: &[f32], w: &[f32]) -> Vec<f32> {
    let output = axes.map(|axis| axis.output(is_transposed).unwrap());
    let mut y = vec![0.0; N * CHANNELS[1] * output[0] * output[1]];
    let [from, to] = CHANNELS.map(|channels| channels / groups);
    let along = |axis: usize, narrow: usize, tap: usize| {
        (narrow * axes[axis].stride + tap * axes[axis].dilation).checked_sub(axes[axis].pads[0])
    };
    // Windows cover the wider side: the input of a convolution, or the output of a transposed convolution.
    let windows = if is_transposed { axes.map(|axis| axis.input) } else { output };
    let wide = if is_transposed { output } else { axes.map(|axis| axis.input) };
    let (kernel, at) = (axes.map(|axis| axis.kernel), |plane: usize, size: [usize; 2], row: usize, column: usize| {
        (plane * size[0] + row) * size[1] + column
    });
    for index in 0..N * groups * from * to * kernel[0] * kernel[1] * windows[0] * windows[1] {
        let mut rest = index;
        let mut digit = |count: usize| (rest % count, rest /= count).0;
        let (window, tap) = ([digit(windows[0]), digit(windows[1])], [digit(kernel[0]), digit(kernel[1])]);
        let (o, c, group, sample) = (digit(to), digit(from), digit(groups), digit(N));
        let (Some(row), Some(column)) = (along(0, window[0], tap[0]), along(1, window[1], tap[1])) else { continue };
        if row >= wide[0] || column >= wide[1] {
            continue;
        }
        let weights = if is_transposed { (group * from + c) * to + o } else { (group * to + o) * from + c };
        let (x_plane, y_plane) = (sample * CHANNELS[0] + group * from + c, sample * CHANNELS[1] + group * to + o);
        let (near, far) = ([window[0], window[1]], [row, column]);
        let (x_at, y_at) = if is_transposed { (near, far) } else { (far, near) };
        y[at(y_plane, output, y_at[0], y_at[1])] +=
            x[at(x_plane, axes.map(|axis| axis.input), x_at[0], x_at[1])] * w[at(weights, kernel, tap[0], tap[1])];
    }
    y
}

/// Integers, so that sums are exact.
fn whole(seed: u64, len: usize) -> Vec<f32> {
    values(seed, len).iter().map(|value| (value * 4.0).round()).collect()
}

/// Model of one node over the last `rank` of `axes`, and its plan.
fn convolution(axes: [Axis; 2], rank: usize, groups: usize, is_transposed: bool) -> (pb::ModelProto, SessionSpec) {
    let list = |of: &dyn Fn(&Axis) -> usize| axes[2 - rank..].iter().map(of).collect::<Vec<_>>();
    let shape = |first: Dim, second: usize, extents: Vec<usize>| {
        [first, Dim::Fixed(second)].into_iter().chain(extents.into_iter().map(Dim::Fixed)).collect::<Vec<_>>()
    };
    let [a, b] = if is_transposed { [CHANNELS[0], CHANNELS[1]] } else { [CHANNELS[1], CHANNELS[0]] };
    let inputs = vec![
        spec("x", &shape(Dim::Batch, CHANNELS[0], list(&|axis| axis.input))),
        spec("w", &shape(Dim::Fixed(a), b / groups, list(&|axis| axis.kernel))),
    ];
    let output = list(&|axis| axis.output(is_transposed).unwrap());
    let outputs = vec![spec("y", &shape(Dim::Batch, CHANNELS[1], output))];
    let ints = |list: Vec<usize>| list.into_iter().map(|value| value as i64).collect::<Vec<_>>();
    let (strides, dilations) = (ints(list(&|axis| axis.stride)), ints(list(&|axis| axis.dilation)));
    let pads = ints([list(&|axis| axis.pads[0]), list(&|axis| axis.pads[1])].concat());
    let extra = ints(list(&|axis| axis.extra));
    let mut attributes: Vec<(&str, &[i64])> = vec![("strides", &strides), ("dilations", &dilations), ("pads", &pads)];
    if is_transposed && extra.iter().any(|extra| *extra > 0) {
        attributes.push(("output_padding", &extra));
    }
    let mut node = node(if is_transposed { "ConvTranspose" } else { "Conv" }, &["x", "w"], "y", &attributes);
    node.attribute.push(damper_onnx::make_attr_int("group", groups as i64));
    (model(&inputs, &outputs, vec![node]), plan(N, inputs, outputs))
}

/// Checks every axis of `op` in one dimension, and in two dimensions with another axis as the first.
fn check(is_transposed: bool) {
    let device = open(Choice::OrtStandard).inspect_err(skip).ok();
    let axes = axes(if is_transposed { 3 } else { 7 }, is_transposed);
    for (index, &axis) in axes.iter().enumerate() {
        for (first, rank) in [(Axis::FLAT, 1), (axes[index * 37 % axes.len()], 2)] {
            let (pair, groups) = ([first, axis], 1 + index % 2);
            let (of_pair, plan) = convolution(pair, rank, groups, is_transposed);
            let len = |spec: &TensorSpec| spec.elements(plan.batch);
            let (x, w) = (whole(index as u64, len(&plan.inputs[0])), whole(index as u64 + 999, len(&plan.inputs[1])));
            let expected = reference(pair, groups, is_transposed, &x, &w);
            let mut rewritten = of_pair.clone();
            make_pads_symmetric(&mut rewritten);
            for node in &rewritten.graph.as_ref().unwrap().node {
                let pads = damper_onnx::attr_ints(&node.attribute, "pads").unwrap_or_default();
                assert_eq!(pads[..pads.len() / 2], pads[pads.len() / 2..], "{pair:?}");
            }
            let portable = open(Choice::Portable).unwrap();
            let runs = [(Some(&portable), &rewritten), (device.as_ref(), &of_pair)];
            for (backend, of_pair) in runs.into_iter().filter_map(|(backend, of_pair)| Some((backend?, of_pair))) {
                let what = format!("{pair:?}, {groups} groups, {}", backend.name());
                let mut session = backend.load(of_pair, &plan).unwrap_or_else(|error| panic!("{what}: {error}"));
                let made = run(session.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w)]);
                assert_eq!(made[0], expected, "{what}");
            }
        }
    }
}

#[test]
fn transposed_convolution_keeps_its_numbers() {
    check(true);
}

#[test]
fn convolution_keeps_its_numbers() {
    check(false);
}
