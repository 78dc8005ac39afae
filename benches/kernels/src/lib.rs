//! Each kernel of `damper-kernels` at the shapes of the shipped networks.

use damper_kernels::convolution::{Convolution, Windows};
use damper_kernels::kernel_grad::KernelGrad;
use damper_kernels::position_grad::PositionGrad;
use damper_kernels::product::SimdProduct;
use damper_kernels::simd::SimdKernel as _;
use std::fmt::{Display, Formatter, Result};

/// Positions of a call. It has the number of samples that make this many positions, but at most four. A trainer's
/// physical batch has 16 by default, and these are enough to show what a call reads again.
const POSITIONS: usize = 512;
const MOST_SAMPLES: usize = 4;

/// Rows of a call's small linear layers: one row for each sample of the trainer's physical batch.
const ROWS: usize = 16;

/// The kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TimedKernel {
    /// A convolution of [`samples`], or the gradient of its inputs if it is `transposed`.
    Convolution {
        /// Geometry of the convolution.
        windows: Windows,
        /// True if the weights are transposed.
        transposed: bool,
    },
    /// The gradient of a convolution's weights, of one sample.
    KernelGrad(Windows),
    /// The gradient of a linear layer's weights `[rows, columns]`, of one sample with this number of tokens.
    PositionGrad {
        /// Tokens.
        positions: usize,
        /// Rows and columns.
        sizes: [usize; 2],
    },
    /// Rows `[rows, terms]` times weights `[terms, outputs]`, or `[outputs, terms]` if they are `transposed`.
    Product {
        /// Rows, terms and outputs.
        sizes: [usize; 3],
        /// True if the weights are transposed.
        transposed: bool,
    },
}

/// Returns windows between channels, over squares: `kernel`, `stride`, `pad`.
fn windows(between: [usize; 2], extent: usize, [kernel, stride, pad]: [usize; 3]) -> Windows {
    let steps = [[kernel; 2], [stride; 2], [1; 2]];
    Windows::new(between, [extent; 2], [[pad; 2]; 2], steps).expect("windows that fit")
}

/// Returns the kernels of a convolution: forward, to the inputs (the first convolution of a network has no such
/// gradient), to the weights.
fn convolution([channels, outputs]: [usize; 2], extent: usize, steps: [usize; 3], is_first: bool) -> Vec<TimedKernel> {
    let of = windows([channels, outputs], extent, steps);
    let mut kernels = vec![];
    if steps[1] <= 2 {
        kernels.push(TimedKernel::Convolution { windows: of, transposed: false });
    }
    if steps[1] == 1 && !is_first {
        let back = [steps[0], 1, steps[0] - 1 - steps[2]];
        let windows = windows([outputs, channels], of.output[0], back);
        kernels.push(TimedKernel::Convolution { windows, transposed: true });
    }
    kernels.push(TimedKernel::KernelGrad(of));
    kernels
}

/// Returns the products of a linear layer over `rows` rows, with weights `[outputs, terms]`, or `[terms, outputs]` if
/// they are `turned`.
fn linear(rows: usize, [terms, outputs]: [usize; 2], turned: bool) -> Vec<TimedKernel> {
    vec![
        TimedKernel::Product { sizes: [rows, terms, outputs], transposed: !turned },
        TimedKernel::Product { sizes: [rows, outputs, terms], transposed: turned },
    ]
}

/// Returns the kernels of a linear layer of a transformer: its products, with weights `[terms, outputs]`, and the
/// gradient of its weights.
fn of_tokens(tokens: usize, sizes: [usize; 2]) -> Vec<TimedKernel> {
    let mut kernels = linear(MOST_SAMPLES * tokens, sizes, true);
    kernels.push(TimedKernel::PositionGrad { positions: tokens, sizes });
    kernels
}

/// Returns the kernels of each network's gradients, each shape once.
#[must_use]
pub fn networks() -> Vec<(&'static str, Vec<TimedKernel>)> {
    const SAME: [usize; 3] = [3, 1, 1];
    let stages = |widths: &[usize], before: usize| {
        let mut kernels = vec![];
        let (mut from, mut extent) = (before, 32);
        for (stage, width) in widths.iter().enumerate() {
            let stride = if stage > 0 { 2 } else { 1 };
            kernels.extend(convolution([from, *width], extent, [3, stride, 1], false));
            if stride != 1 || from != *width {
                kernels.extend(convolution([from, *width], extent, [1, stride, 0], false));
            }
            extent /= stride;
            kernels.extend(convolution([*width, *width], extent, SAME, false));
            from = *width;
        }
        kernels
    };
    let tokens = 65;
    let of = [
        (
            "mnist-cnn",
            vec![
                convolution([1, 16], 28, [8, 2, 3], true),
                convolution([16, 32], 13, [4, 2, 0], false),
                linear(ROWS, [512, 32], false),
                linear(ROWS, [32, 10], false),
            ],
        ),
        (
            "cifar-cnn",
            vec![
                convolution([3, 32], 32, SAME, true),
                convolution([32, 32], 32, SAME, false),
                convolution([32, 64], 16, SAME, false),
                convolution([64, 64], 16, SAME, false),
                convolution([64, 128], 8, SAME, false),
                convolution([128, 128], 8, SAME, false),
                linear(ROWS, [2048, 128], false),
                linear(ROWS, [128, 10], false),
            ],
        ),
        (
            "wrn-16-4",
            vec![convolution([3, 16], 32, SAME, true), stages(&[64, 128, 256], 16), linear(ROWS, [256, 10], false)],
        ),
        (
            "vit-tiny",
            vec![
                convolution([3, 192], 32, [4, 4, 0], true),
                of_tokens(tokens, [192, 192]),
                of_tokens(tokens, [192, 768]),
                of_tokens(tokens, [768, 192]),
                linear(ROWS, [192, 10], false),
            ],
        ),
        (
            "resnet-18-gn",
            vec![
                convolution([3, 64], 32, SAME, true),
                stages(&[64, 128, 256, 512], 64),
                linear(ROWS, [512, 10], false),
            ],
        ),
    ];
    of.into_iter().map(|(network, kernels)| (network, kernels.concat())).collect()
}

/// Returns every kernel once, with the networks that have it.
#[must_use]
pub fn kernels() -> Vec<(TimedKernel, Vec<&'static str>)> {
    let mut kernels: Vec<(TimedKernel, Vec<&'static str>)> = vec![];
    for (network, kernel) in networks().into_iter().flat_map(|(network, of)| of.into_iter().map(move |k| (network, k)))
    {
        match kernels.iter_mut().find(|(other, _)| *other == kernel) {
            Some((_, networks)) if networks.contains(&network) => {}
            Some((_, networks)) => networks.push(network),
            None => kernels.push((kernel, vec![network])),
        }
    }
    kernels
}

impl Display for TimedKernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let of_windows = |f: &mut Formatter<'_>, what: &str, w: &Windows| {
            write!(
                f,
                "{what} {}→{}, {}×{}, {}×{}",
                w.channels, w.outputs, w.input[0], w.input[1], w.kernel[0], w.kernel[1]
            )?;
            if w.stride == [1, 1] { Ok(()) } else { write!(f, " by {}", w.stride[0]) }
        };
        match self {
            Self::Convolution { windows, transposed: false } => of_windows(f, "convolution", windows),
            Self::Convolution { windows, transposed: true } => of_windows(f, "gradient to inputs", windows),
            Self::KernelGrad(windows) => of_windows(f, "gradient to weights", windows),
            Self::PositionGrad { positions, sizes: [rows, columns] } => {
                write!(f, "gradient to weights {rows}×{columns}, {positions} tokens")
            }
            Self::Product { sizes: [rows, terms, outputs], transposed } => {
                write!(f, "product {rows}×{terms}→{outputs}{}", if *transposed { ", turned" } else { "" })
            }
        }
    }
}

impl TimedKernel {
    /// Returns the multiplications of the definition. Multiplications that a faster algorithm saves count as done.
    #[must_use]
    pub fn products(&self) -> usize {
        let of = |w: &Windows| w.channels * w.kernel[0] * w.kernel[1] * w.outputs * w.output[0] * w.output[1];
        match self {
            Self::Convolution { windows, .. } => samples(windows) * of(windows),
            Self::KernelGrad(windows) => of(windows),
            Self::PositionGrad { positions, sizes } => positions * sizes[0] * sizes[1],
            Self::Product { sizes, .. } => sizes.iter().product(),
        }
    }

    /// Returns a call of the kernel, with inputs.
    #[must_use]
    pub fn prepare(&self) -> Box<dyn FnMut()> {
        match *self {
            Self::Convolution { windows, transposed } => {
                let mut of = Convolution::new(windows, transposed);
                let ([len, made], samples) = (lens(&windows), samples(&windows));
                let (x, weights) = (numbers(samples * len, 1), numbers(of_weights(&windows), 2));
                let mut y = vec![0.0; samples * made];
                Box::new(move || of.run(&x, &weights, None, &mut y))
            }
            Self::KernelGrad(windows) => {
                let [len, made] = lens(&windows);
                let (x, left, mut grad) = (numbers(len, 1), numbers(made, 2), vec![0.0; of_weights(&windows)]);
                let mut of = KernelGrad::new(windows);
                Box::new(move || of.write(&left, &x, &mut grad))
            }
            Self::PositionGrad { positions, sizes: [rows, columns] } => {
                let mut of = PositionGrad::new(positions, columns);
                let (left, right) = (numbers(positions * rows, 1), numbers(positions * columns, 2));
                let mut grad = vec![0.0; rows * columns];
                Box::new(move || of.write(&left, &right, &mut grad))
            }
            Self::Product { sizes: [rows, terms, outputs], transposed } => {
                let mut of = SimdProduct::new([terms, outputs], transposed);
                let (x, weights) = (numbers(rows * terms, 1), numbers(terms * outputs, 2));
                let mut y = vec![0.0; rows * outputs];
                Box::new(move || of.run(&x, &weights, None, &mut y))
            }
        }
    }
}

/// Returns the samples of a convolution's call.
#[must_use]
pub fn samples(w: &Windows) -> usize {
    (POSITIONS / (w.input[0] * w.input[1])).clamp(1, MOST_SAMPLES)
}

/// Returns the floats of a sample's input and output.
fn lens(w: &Windows) -> [usize; 2] {
    [w.channels * w.input[0] * w.input[1], w.outputs * w.output[0] * w.output[1]]
}

fn of_weights(w: &Windows) -> usize {
    w.channels * w.outputs * w.kernel[0] * w.kernel[1]
}

/// Returns numbers in (−1, 1).
#[must_use]
pub fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
