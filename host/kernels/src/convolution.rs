//! Convolutions in one and two dimensions, with weights that change from step to step.
//!
//! `winograd` computes the fewest products, for the windows that it supports. All other windows are computed by
//! definition, with positions in the lanes in `shifted`, or with outputs in the lanes in `direct`.

mod direct;
mod shifted;
#[cfg(test)]
mod tests;
mod windows;
pub(crate) mod winograd;

pub use windows::{Axes, Windows};

use crate::simd::SimdKernel as _;

/// Minimum number of outputs for which SIMD over outputs is faster.
const FEWEST_OUTPUTS: usize = 4;

/// Minimum number of channels and outputs for which Winograd's transforms take less time than the products that they
/// save. The direct sum reaches nine tenths of the processor's peak.
const WORTH_TRANSFORMS: usize = 32;

/// Returns true if this module supports convolutions with this many outputs and these strides.
pub fn suits(outputs: usize, stride: &[usize]) -> bool {
    outputs >= FEWEST_OUTPUTS
        && (1..=2).contains(&stride.len())
        && stride.last().is_some_and(|stride| (1..=direct::MOST_STRIDE).contains(stride))
}

/// Convolution of a session, with its memory.
#[derive(Debug)]
pub enum Convolution {
    /// Positions in the lanes.
    Shifted(shifted::ShiftedConvolution),
    /// Fewer products.
    Winograd(winograd::WinogradConvolution),
    /// Outputs in the lanes.
    Direct(direct::DirectConvolution),
}

impl Convolution {
    /// Convolution over `windows`. With `transposed`, it computes the gradient of a convolution from outputs (here the
    /// channels) to inputs. The weights `[C, O, *kernel]` are those of that convolution.
    pub fn new(windows: Windows, transposed: bool) -> Self {
        let fewest = windows.channels.min(windows.outputs);
        if fewest >= WORTH_TRANSFORMS && winograd::suits(&windows) {
            Self::Winograd(winograd::WinogradConvolution::new(windows, transposed))
        } else if shifted::suits(&windows) {
            Self::Shifted(shifted::ShiftedConvolution::new(windows, transposed))
        } else {
            Self::Direct(direct::DirectConvolution::new(windows, transposed))
        }
    }

    /// Computes `y` `[N, O, *output]` from `x` `[N, C, *input]`, with `weights` `[O, C, *kernel]` and `bias` `[O]`.
    pub fn run(&mut self, x: &[f32], weights: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        match self {
            Self::Shifted(convolution) => convolution.run(x, weights, bias, y),
            Self::Winograd(convolution) => convolution.run(x, weights, bias, y),
            Self::Direct(convolution) => convolution.run(x, weights, bias, y),
        }
    }
}
