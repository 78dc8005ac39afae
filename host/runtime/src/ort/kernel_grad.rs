//! Custom operator for each sample's gradient of a convolution kernel. Standard nodes need a product with patches,
//! which are many times as large as the input.

use super::operator::{Kernel, Operator};
use damper_kernels::convolution::{Axes, Windows};
use damper_kernels::kernel_grad;

/// `(dY [N, O, *windows], X [N, C, *input]) → dW [N, O, C, *kernel]` over one or two axes. Attributes are
/// `kernel_shape`, `strides`, `dilations` and `before`, the padding before the first element.
pub(super) const KERNEL_GRAD: Operator<KernelGrad> = Operator {
    name: "KernelGrad",
    inputs: [2, 0],
    outputs: [1, 0],
    kernel: |attributes| KernelGrad {
        lists: ["kernel_shape", "strides", "dilations", "before"].map(|name| attributes.ints(name)),
        samples: 0,
        of: None,
    },
};

/// Kernel of a node, with state for its current shape.
pub(super) struct KernelGrad {
    lists: [Vec<i64>; 4],
    samples: usize,
    of: Option<kernel_grad::KernelGrad>,
}

impl Kernel for KernelGrad {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(dy), Some(x)] = *inputs else { return None };
        let extents = |list: &[i64], least: usize| {
            let extent = |extent: &i64| usize::try_from(*extent).ok().filter(|extent| *extent >= least);
            list.iter().map(extent).collect::<Option<Vec<_>>>()
        };
        let [kernel, stride, dilation, before] = &self.lists;
        let (dy, x) = (extents(dy, 1)?, extents(x, 1)?);
        let ([samples, outputs, output @ ..], [others, channels, input @ ..]) = (&dy[..], &x[..]) else { return None };
        let axes = Axes {
            input,
            output,
            kernel: &extents(kernel, 1)?,
            stride: &extents(stride, 1)?,
            dilation: &extents(dilation, 1)?,
            before: &extents(before, 0)?,
        };
        let lists = [axes.output, axes.kernel, axes.stride, axes.dilation, axes.before];
        if samples != others || lists.iter().any(|list| list.len() != input.len()) || axes.dilation.last() != Some(&1) {
            return None;
        }
        self.samples = *samples;
        self.of = Some(kernel_grad::KernelGrad::new(Windows::over(*channels, *outputs, axes)?));
        Some(vec![[&[*samples as i64, *outputs as i64, *channels as i64], &kernel[..]].concat()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(dy), Some(x)], [Some(dw)]) = (inputs, outputs) else { return None };
        let (of, samples) = (self.of.as_mut()?, self.samples);
        let [dy, x] = [dy, x].map(|tensor| tensor.chunks_exact(tensor.len() / samples));
        let len = dw.len() / samples;
        for ((dy, x), dw) in dy.zip(x).zip(dw.chunks_exact_mut(len)) {
            of.write(dy, x, dw);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::operator::node;
    use super::super::testing::{BATCH, apart, assert_samples_stay_alone, batched, model, numbers, run};
    use crate::SessionSpec;
    use damper_onnx::{make_attr_ints, pb};

    /// Outputs and channels. For one of the two pairs, the kernel has an algorithm with fewer products.
    const PLANES: [[usize; 2]; 2] = [[3, 2], [17, 16]];

    fn kernel_grad([outputs, channels]: [usize; 2], lists: [[usize; 2]; 6]) -> (pb::ModelProto, SessionSpec) {
        let [output, input, rest @ ..] = lists;
        let attribute = |(name, list): (&str, [usize; 2])| make_attr_ints(name, &list.map(|extent| extent as i64));
        let attributes =
            ["kernel_shape", "strides", "dilations", "before"].into_iter().zip(rest).map(attribute).collect();
        let shape = |planes: usize, plane: [usize; 2]| [planes, plane[0], plane[1]];
        model(
            vec![node("KernelGrad", &["dy", "x"], &["dw"], attributes)],
            &[],
            vec![batched("dy", &shape(outputs, output)), batched("x", &shape(channels, input))],
            vec![batched("dw", &[outputs, channels, rest[0][0], rest[0][1]])],
        )
    }

    const LISTS: [[[usize; 2]; 6]; 2] =
        [[[6, 5], [6, 5], [3, 3], [1, 1], [1, 1], [1, 1]], [[3, 2], [8, 6], [3, 2], [2, 3], [2, 1], [0, 1]]];

    #[test]
    fn it_is_the_sum_over_the_windows() {
        for (planes, lists) in PLANES.into_iter().flat_map(|planes| LISTS.map(|lists| (planes, lists))) {
            let of = kernel_grad(planes, lists);
            let inputs = numbers(&of.1);
            let Some(made) = run(&of, &inputs) else { return };
            let ([outputs, channels], [output, input, kernel, stride, dilation, before]) = (planes, lists);
            let mut want = vec![0.0; made[0].len()];
            for (at, want) in want.iter_mut().enumerate() {
                let (weight, n) = (at % (kernel[0] * kernel[1]), at / (kernel[0] * kernel[1] * channels * outputs));
                let (c, o) =
                    (at / (kernel[0] * kernel[1]) % channels, at / (kernel[0] * kernel[1] * channels) % outputs);
                let tap = [weight / kernel[1], weight % kernel[1]];
                for window in 0..output[0] * output[1] {
                    let to = [window / output[1], window % output[1]];
                    let [line, column] =
                        [0, 1].map(|i| (to[i] * stride[i] + tap[i] * dilation[i]).wrapping_sub(before[i]));
                    if line < input[0] && column < input[1] {
                        let dy = inputs[0][(n * outputs + o) * output[0] * output[1] + window];
                        let x = inputs[1][((n * channels + c) * input[0] + line) * input[1] + column];
                        *want += f64::from(dy) * f64::from(x);
                    }
                }
            }
            assert!(apart(&made[0], &want) < 1e-5, "{planes:?} {lists:?}");
            assert_eq!(made[0].len(), BATCH * outputs * channels * kernel[0] * kernel[1]);
        }
    }

    #[test]
    fn a_kernel_grad_is_of_its_sample_alone() {
        for planes in PLANES {
            assert_samples_stay_alone(&kernel_grad(planes, LISTS[0]), 2, &[f32::NAN, f32::INFINITY]);
        }
    }
}
