//! One sample's gradient of a convolution's kernel, as [`Convolution`](crate::convolution::Convolution) takes its sums: with fewer products
//! where that is the faster way, else as it is defined.

mod defined;

use crate::convolution::{Windows, winograd};

/// Of a kernel `[O, C, *kernel]`, with memory for a sample.
#[derive(Clone, Debug)]
pub enum KernelGrad {
    /// By its definition.
    Defined(Box<defined::DefinedKernelGrad>),
    /// With fewer products.
    Winograd(Box<winograd::WinogradKernelGrad>),
}

impl KernelGrad {
    /// Over `windows` whose taps are next to each other along a line.
    pub fn new(windows: Windows) -> Self {
        if winograd::suits(&windows) {
            Self::Winograd(Box::new(winograd::WinogradKernelGrad::new(windows)))
        } else {
            Self::Defined(Box::new(defined::DefinedKernelGrad::new(&windows)))
        }
    }

    /// Writes the gradient `[O, C, *kernel]` of a sample with the output gradient `left` `[O, *output]` and the input `x` `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        match self {
            Self::Defined(kernel) => kernel.write(left, x, grad),
            Self::Winograd(kernel) => kernel.write(left, x, grad),
        }
    }
}
