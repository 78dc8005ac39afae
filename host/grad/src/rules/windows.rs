//! Windows of a convolution or pool, from its attributes and the shapes of its input and output.

use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::window::SlidingWindow;

impl SlidingWindow {
    /// Windows of the node, from its attributes and the shapes of its input and output.
    pub fn of(p: &BackwardContext<'_>, kernel: &[usize]) -> Self {
        Self::between(p, kernel, p.x(0).shape[2..].to_vec(), p.y().shape[2..].to_vec())
    }

    /// Windows of a transposed convolution over its output, one for each element of its input.
    pub fn of_transposed(p: &BackwardContext<'_>, kernel: &[usize]) -> Self {
        Self::between(p, kernel, p.y().shape[2..].to_vec(), p.x(0).shape[2..].to_vec())
    }

    fn between(p: &BackwardContext<'_>, kernel: &[usize], input: Vec<usize>, output: Vec<usize>) -> Self {
        let rank = input.len();
        let list = |name: &str| match p.ints(name) {
            Some(list) => list.iter().map(|&v| v as usize).collect(),
            None => vec![1; rank],
        };
        let (stride, dilation) = (list("strides"), list("dilations"));
        let reach = |i: usize| (output[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
        let same = |i: usize| reach(i).saturating_sub(input[i]);
        let (before, after) = match p.string("auto_pad") {
            "SAME_UPPER" => (0..rank).map(|i| (same(i) / 2, same(i) - same(i) / 2)).unzip(),
            "SAME_LOWER" => (0..rank).map(|i| (same(i) - same(i) / 2, same(i) / 2)).unzip(),
            "VALID" => (vec![0; rank], vec![0; rank]),
            _ => match p.ints("pads") {
                Some(pads) => {
                    let pads: Vec<usize> = pads.iter().map(|&v| v as usize).collect();
                    (pads[..rank].to_vec(), pads[rank..].to_vec())
                }
                None => (vec![0; rank], vec![0; rank]),
            },
        };
        Self { input, output, kernel: kernel.to_vec(), stride, dilation, before, after }
    }

    /// Windows of a pool, whose attributes include the kernel size.
    pub fn of_pool(p: &BackwardContext<'_>) -> Result<Self, DeriveError> {
        let kernel =
            p.ints("kernel_shape").ok_or_else(|| p.refuse("it has no kernel_shape", "export the model again"))?;
        Ok(Self::of(p, &kernel.iter().map(|&k| k as usize).collect::<Vec<_>>()))
    }
}
