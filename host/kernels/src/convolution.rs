//! Convolutions over planes and lines, with weights that change from step to step.
//!
//! `winograd` takes the fewest products where it can; all other windows are summed as they are defined, with positions side by side in
//! the vectors, in `shifted`, or outputs, in `direct`.

mod direct;
mod shifted;
#[cfg(test)]
mod tests;
mod windows;
pub(crate) mod winograd;

pub use windows::{Axes, Windows};

use crate::simd::SimdKernel as _;

/// Outputs from which vectors of them are worth it.
const FEWEST_OUTPUTS: usize = 4;

/// Channels and outputs from which Winograd's transforms take less time than the products that they spare: a sum as it is defined reaches
/// nine tenths of what processors can do.
const WORTH_TRANSFORMS: usize = 32;

/// Returns true if convolutions to so many outputs are had from here.
pub fn suits(outputs: usize, stride: &[usize]) -> bool {
    outputs >= FEWEST_OUTPUTS
        && (1..=2).contains(&stride.len())
        && stride.last().is_some_and(|stride| (1..=direct::MOST_STRIDE).contains(stride))
}

/// A convolution of a session's, with the memory that it needs.
#[derive(Debug)]
pub enum Convolution {
    /// Positions in the vectors.
    Shifted(shifted::ShiftedConvolution),
    /// With fewer products.
    Winograd(winograd::WinogradConvolution),
    /// Outputs in the vectors.
    Direct(direct::DirectConvolution),
}

impl Convolution {
    /// Over `windows`. `transposed`: its weights `[C, O, *kernel]` are those of the convolution whose gradient it takes from outputs, here
    /// the channels, to inputs.
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

    /// From `x` `[N, C, *input]` to `y` `[N, O, *output]`, with `weights` `[O, C, *kernel]` and `bias` `[O]`.
    pub fn run(&mut self, x: &[f32], weights: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        match self {
            Self::Shifted(convolution) => convolution.run(x, weights, bias, y),
            Self::Winograd(convolution) => convolution.run(x, weights, bias, y),
            Self::Direct(convolution) => convolution.run(x, weights, bias, y),
        }
    }
}
