//! Convolutions of 3×3 windows with fewer products, by Winograd's minimal filtering: `F(2×2, 3×3)` for the convolution
//! and `F(3×3, 2×2)` for the gradient of its kernel. Source: Lavin and Gray, "Fast algorithms for convolutional neural
//! networks", 2016, §4.1.
//!
//! A tile of 4×4 inputs and a kernel of 3×3 weights (or a tile of 2×2 output gradients) are each transformed to 16
//! points. The points' products are summed, and the sums transformed to 2×2 outputs (or 3×3 weights). This takes 16
//! products instead of 36.
//!
//! Numerics: the transforms are sums of a few terms and halves. So the error of an entry is relative to the largest
//! entries of its tile, and not always to its own magnitude. Its bits depend only on the sample, the parameters and the
//! kind of processor: samples share registers but never sums.

mod convolution;
mod kernel;

pub(super) use convolution::WinogradConvolution;
pub use kernel::WinogradKernelGrad;

use super::windows::Windows;
use pulp::Simd;

/// Number of points of a transformed tile.
const POINTS: usize = 16;

/// Registers of the widest tile of sums.
const VECTORS: usize = 3;

/// Outputs of a tile of sums, limited by the number of registers, for the widest SIMD and for others.
const WIDE_TILE: usize = 8;
const TILE: usize = 4;

/// Minimum number of channels and of outputs for which the saved products outweigh the transforms.
const WORTHWHILE: usize = 16;

/// Returns true if this method is faster: plain 3×3 windows with at most 2 of padding, for which the saved products
/// outweigh the transforms.
pub fn suits(windows: &Windows) -> bool {
    let Windows { channels, outputs, input, output, kernel, stride, dilation, before } = *windows;
    [kernel, stride, dilation] == [[3, 3], [1, 1], [1, 1]]
        && channels >= WORTHWHILE
        && outputs >= WORTHWHILE
        && (0..2).all(|i| before[i] <= 2 && output[i] <= input[i] + before[i])
}

/// Lines and columns of tiles of outputs.
fn tiles(windows: &Windows) -> [usize; 2] {
    windows.output.map(|extent| extent.div_ceil(2))
}

/// Transforms a line of an input tile to its points.
#[inline(always)]
fn at_points<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Two outputs from the sums at their points.
#[inline(always)]
fn two<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    [simd.add_f32s(simd.add_f32s(a, b), c), simd.sub_f32s(simd.sub_f32s(b, c), d)]
}

/// Gradients of three weights from the sums at their points.
#[inline(always)]
fn three<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 3] {
    let sum = simd.add_f32s(b, c);
    [simd.add_f32s(a, sum), simd.sub_f32s(b, c), simd.sub_f32s(sum, d)]
}

/// Column `j` of a tile of lines.
#[inline(always)]
fn column_of<V: Copy, const LINES: usize, const COLUMNS: usize>(tile: &[[V; COLUMNS]; LINES], j: usize) -> [V; LINES] {
    let mut column = [tile[0][j]; LINES];
    for (entry, line) in column.iter_mut().zip(tile) {
        *entry = line[j];
    }
    column
}

/// Loads a register from `at`.
#[inline(always)]
fn load<S: Simd>(from: &[f32], at: usize) -> S::f32s {
    S::as_simd_f32s(&from[at..][..S::F32_LANES]).0[0]
}

/// Stores as much of a register as `into` has room for.
#[inline(always)]
fn store<S: Simd>(simd: S, into: &mut [f32], vector: S::f32s) {
    if into.len() == S::F32_LANES {
        S::as_mut_simd_f32s(into).0[0] = vector;
    } else {
        simd.partial_store_f32s(into, vector);
    }
}
