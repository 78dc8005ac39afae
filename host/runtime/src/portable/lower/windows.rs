//! Convolutions and pools in one or two dimensions.

use super::super::builder::{Builder, Id, ProgramForm, Refusal, TOO_MANY_AXES, len};
use super::super::kernel::Kernel;
use super::super::node::Node;
use super::super::value::{Kind, Stage};
use damper_nn::convolution::KernelStrides;
use damper_nn::{Axis, Walk, Window};
use damper_onnx::pb::NodeProto;

pub(super) fn conv(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (x, kernel) = (node.input(0)?, node.input(1)?);
    let (image, weights) = (b.shape(x).to_vec(), b.shape(kernel).to_vec());
    let spatial = spatial(&image)?;
    if weights.len() != image.len() || weights[0] == 0 {
        return Err("its kernel does not fit its image".into());
    }
    let axes = axes(node, spatial, &weights[2..])?;
    let groups = groups(node)?;
    if weights[1].checked_mul(groups) != Some(image[1]) {
        return Err("its kernel does not fit its channels".into());
    }
    let window = Window::over(image[1], weights[0], groups, &axes).ok_or("its window does not fit its image")?;
    let shape: Vec<usize> = [1, weights[0]].into_iter().chain(axes.iter().map(|axis| axis.output)).collect();
    let reads: Vec<Id> = [x, kernel].into_iter().chain(node.optional(2)).collect();
    b.step(Kernel::Forward(window), &reads, Kind::F32, shape)
}

pub(super) fn conv_transpose(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (y, kernel) = (node.input(0)?, node.input(1)?);
    let (image, weights) = (b.shape(y).to_vec(), b.shape(kernel).to_vec());
    let spatial = spatial(&image)?;
    let rank = spatial.len();
    if weights.len() != image.len() || weights[0] != image[1] {
        return Err("its kernel does not fit its image".into());
    }
    if !matches!(node.string("auto_pad", "NOTSET"), "NOTSET" | "") || node.ints("output_shape").is_some() {
        return Err("it says its output's shape or an auto_pad; pads and output_padding have a portable kernel".into());
    }
    let groups = groups(node)?;
    let channels = weights[1].checked_mul(groups).ok_or("its sizes overflow")?;
    let pads = sizes(node.ints("pads"), 2 * rank, 0)?;
    let extra = sizes(node.ints("output_padding"), rank, 0)?;
    let (strides, dilations) = (sizes(node.ints("strides"), rank, 1)?, sizes(node.ints("dilations"), rank, 1)?);
    let mut axes = vec![];
    for (at, output) in spatial.iter().copied().enumerate() {
        let (kernel, stride, dilation) = (weights[at + 2], strides[at], dilations[at]);
        let whole = output.saturating_sub(1) * stride + extra[at] + kernel.saturating_sub(1) * dilation + 1;
        let input = whole.checked_sub(pads[at] + pads[at + rank]).ok_or("its pads leave nothing")?;
        axes.push(Axis { input, output, kernel, stride, dilation, before: pads[at] });
    }
    let window = Window::over(channels, weights[0], groups, &axes).ok_or("its window does not fit its image")?;
    let shape: Vec<usize> = [1, channels].into_iter().chain(axes.iter().map(|axis| axis.input)).collect();
    // Kernels shared by all samples are laid out once, in reading order.
    let (mut kernel, mut strides) = (kernel, KernelStrides::onnx(&window));
    if b.stage(kernel) != Stage::Sample && b.form == ProgramForm::Fast {
        let [outputs, channels, taps] = [weights[0], weights[1], len(&weights[2..])];
        let order = [1, taps as isize, (taps * channels) as isize];
        let walk = Walk::new(&[taps, channels, outputs], [&order], [0]).ok_or(TOO_MANY_AXES)?;
        kernel = b.step(Kernel::Copy(walk), &[kernel], Kind::F32, vec![taps, channels, outputs])?;
        strides = KernelStrides::taps_first(&window);
    }
    let reads: Vec<Id> = [y, kernel].into_iter().chain(node.optional(2)).collect();
    b.step(Kernel::Transposed(window, strides), &reads, Kind::F32, shape)
}

pub(super) fn max_pool(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    pool(b, node, Kernel::MaxPool)
}

/// Returns true if a custom `MaxPoolGrad` has a kernel: its windows tile the input.
pub(crate) fn has_max_pool_grad(node: &NodeProto) -> bool {
    node.op_type == "MaxPoolGrad" && node.attribute.iter().any(|attribute| attribute.name == "kernel_shape")
}

pub(super) fn max_pool_grad(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (dy, x, y) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let image = b.shape(x).to_vec();
    let spatial = spatial(&image)?;
    let kernel = sizes(node.ints("kernel_shape"), spatial.len(), 1)?;
    let axis = |(input, kernel): (&usize, &usize)| {
        let output = input.checked_div(*kernel).unwrap_or(0);
        Axis { input: *input, output, kernel: *kernel, stride: *kernel, dilation: 1, before: 0 }
    };
    let axes: Vec<Axis> = spatial.iter().zip(&kernel).map(axis).collect();
    let channels = image[0] * image[1];
    let window = Window::over(channels, channels, channels.max(1), &axes).ok_or("its window does not fit its image")?;
    b.step(Kernel::MaxPoolGrad(window), &[dy, x, y], Kind::F32, image)
}

pub(super) fn average_pool(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let counts_outside = node.int("count_include_pad", 0) != 0;
    if counts_outside && node.int("ceil_mode", 0) != 0 {
        return Err("ceil_mode with count_include_pad has no portable kernel".into());
    }
    pool(b, node, |window| Kernel::AveragePool(window, counts_outside))
}

fn pool(b: &mut Builder, node: &Node<'_>, kernel: impl FnOnce(Window) -> Kernel) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let image = b.shape(x).to_vec();
    let spatial = spatial(&image)?;
    let sizes = sizes(node.ints("kernel_shape"), spatial.len(), 1)?;
    let axes = axes(node, spatial, &sizes)?;
    let channels = image[0] * image[1];
    let window = Window::over(channels, channels, channels.max(1), &axes).ok_or("its window does not fit its image")?;
    let shape = image[..2].iter().copied().chain(axes.iter().map(|axis| axis.output)).collect();
    b.step(kernel(window), &[x], Kind::F32, shape)
}

/// Spatial extents of one image.
fn spatial(image: &[usize]) -> Result<&[usize], Refusal> {
    match image {
        [1, _, spatial @ ..] if (1..=2).contains(&spatial.len()) => Ok(spatial),
        [1, ..] => Err("its image is neither a line nor a plane: those have portable kernels".into()),
        _ => Err("it takes several images of a sample; the portable kernels take one".into()),
    }
}

fn groups(node: &Node<'_>) -> Result<usize, Refusal> {
    usize::try_from(node.int("group", 1))
        .ok()
        .filter(|groups| *groups > 0)
        .ok_or_else(|| "its group is not positive".into())
}

/// Sizes in an attribute, or the default for each.
fn sizes(given: Option<&[i64]>, count: usize, default: usize) -> Result<Vec<usize>, Refusal> {
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(vec![default; count]) };
    let sizes: Option<Vec<usize>> = given.iter().map(|size| usize::try_from(*size).ok()).collect();
    sizes.filter(|sizes| sizes.len() == count).ok_or_else(|| format!("{given:?} are not {count} sizes"))
}

/// Axes of windows of `kernel` over `spatial`.
fn axes(node: &Node<'_>, spatial: &[usize], kernel: &[usize]) -> Result<Vec<Axis>, Refusal> {
    let rank = spatial.len();
    let (strides, dilations) = (sizes(node.ints("strides"), rank, 1)?, sizes(node.ints("dilations"), rank, 1)?);
    let pads = sizes(node.ints("pads"), 2 * rank, 0)?;
    let rounds_up = node.int("ceil_mode", 0) != 0;
    let mut axes = vec![];
    for (at, input) in spatial.iter().copied().enumerate() {
        let (taps, stride, dilation) = (kernel[at], strides[at], dilations[at]);
        if taps == 0 || stride == 0 || dilation == 0 {
            return Err("a kernel, stride or dilation is 0".into());
        }
        let reach =
            (taps - 1).checked_mul(dilation).and_then(|reach| reach.checked_add(1)).ok_or("its sizes overflow")?;
        let (mut before, mut after) = (pads[at], pads[at + rank]);
        match node.string("auto_pad", "NOTSET") {
            "NOTSET" | "" => {}
            "VALID" => (before, after) = (0, 0),
            mode @ ("SAME_UPPER" | "SAME_LOWER") => {
                let needed = (input.div_ceil(stride).saturating_sub(1) * stride + reach).saturating_sub(input);
                before = if mode == "SAME_UPPER" { needed / 2 } else { needed.div_ceil(2) };
                after = needed - before;
            }
            other => return Err(format!("its auto_pad {other} has no portable kernel")),
        }
        let room = (input + before + after).checked_sub(reach).ok_or("its window is larger than its image")?;
        let mut output = room / stride + 1;
        // An extra window from rounding up must begin inside the image or its leading pads.
        if rounds_up && !room.is_multiple_of(stride) && output * stride < input + before {
            output += 1;
        }
        axes.push(Axis { input, output, kernel: taps, stride, dilation, before });
    }
    Ok(axes)
}
