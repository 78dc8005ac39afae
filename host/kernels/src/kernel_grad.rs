//! One sample's gradient of a convolution kernel. Like [`Convolution`](crate::convolution::Convolution), it uses fewer
//! products if that is faster, and otherwise the definition.

mod defined;

use crate::convolution::{Windows, winograd};

/// Gradient of a kernel `[O, C, *kernel]`, with memory for a sample.
#[derive(Clone, Debug)]
pub enum KernelGrad {
    /// By its definition.
    Defined(Box<defined::DefinedKernelGrad>),
    /// With fewer products.
    Winograd(Box<winograd::WinogradKernelGrad>),
}

impl KernelGrad {
    /// Gradient over `windows` with dilation 1 along the line.
    pub fn new(windows: Windows) -> Self {
        if winograd::suits(&windows) {
            Self::Winograd(Box::new(winograd::WinogradKernelGrad::new(windows)))
        } else {
            Self::Defined(Box::new(defined::DefinedKernelGrad::new(&windows)))
        }
    }

    /// Writes the gradient `[O, C, *kernel]` of a sample with the output gradient `left` `[O, *output]` and the input
    /// `x` `[C, *input]`.
    pub fn write(&mut self, left: &[f32], x: &[f32], grad: &mut [f32]) {
        match self {
            Self::Defined(kernel) => kernel.write(left, x, grad),
            Self::Winograd(kernel) => kernel.write(left, x, grad),
        }
    }
}
