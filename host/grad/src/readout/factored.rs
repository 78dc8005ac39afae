//! `per-sample` readout for a reader that multiplies. The gradient of an outer product, a convolution kernel or a table
//! is returned as two factors.
//!
//! A linear layer that each sample uses once has the gradient `l ⊗ r`. If it is used at several positions (tokens), the
//! gradient is the sum of `l_t ⊗ r_t`. That of a kernel is the sum over the windows of `l_t ⊗ patch_t`. A reader that
//! processes one sample at a time keeps the factors in the processor's caches and reads the patches in place. Unfolded
//! patches are as many times larger than the input as a window has taps.
//!
//! At most one table row (of an embedding) per position is non-zero. The reader gets only these rows.
//!
//! Memory: `N · T · (r + c)` floats for outer products of `r · c` at `T` positions. For a kernel it is the input and
//! the output, and for other gradients `N · len`.

use super::read::ParamGrad;
use crate::emit::{Emitter, Var};
use crate::factor::{Grad, KernelFactors};

/// Minimum number of entries for which two outputs are cheaper than a single output.
const LEAST: usize = 1 << 10;

/// Outputs for one parameter's gradient.
pub enum GradOutputs {
    /// Whole gradient, `[N, *shape]`.
    Whole(Var),
    /// `[N, r]` and `[N, c]`: their outer product, in row-major order, is the gradient.
    Outer(Var, Var),
    /// `[N, T, r]` and `[N, T, c]`: the sum of their outer products over the positions is the gradient.
    Positions(Var, Var),
    /// `[N, T]` and `[N, T, c]`: position `t` adds its row to the gradient's row with this index.
    Rows(Var, Var),
    /// In each group, the gradient of a convolution kernel is the sum over windows of the left's vector times the
    /// input's patch.
    Kernel(KernelFactors),
}

impl GradOutputs {
    /// Multiply-adds per sample that the reader needs.
    pub fn multiply_adds(&self) -> u64 {
        let products = match self {
            Self::Whole(_) | Self::Rows(..) => 0,
            Self::Outer(left, right) => left.len() * right.len(),
            Self::Positions(left, right) => left.len() * right.shape[2],
            Self::Kernel(KernelFactors { left, input, window, groups }) => {
                left.len() * input.shape[1] / groups * window.taps()
            }
        };
        products as u64
    }
}

/// Emits the outputs of each parameter. With `positions`, the reader sums over positions if the factors are smaller
/// than the gradient. With `groups`, it computes the gradients of grouped convolution kernels too.
pub fn factored(em: &mut Emitter, grads: &[ParamGrad], positions: bool, groups: bool) -> Vec<GradOutputs> {
    let part = |read: &ParamGrad| {
        let Grad::Factored(factors) = &read.grad else { return GradOutputs::Whole(read.grad.dense(em)) };
        if (groups || !factors.has_groups())
            && let Some(factors) = factors.kernel(em)
        {
            return GradOutputs::Kernel(factors);
        }
        if positions && factors.len() >= LEAST {
            if let Some((left, right)) = factors.positions(em) {
                return GradOutputs::Positions(left, right);
            }
            if let Some((indices, rows)) = factors.rows(em) {
                return GradOutputs::Rows(indices, rows);
            }
        }
        match factors.outer(em) {
            Some((left, right)) if factors.len() >= LEAST => GradOutputs::Outer(left, right),
            _ => GradOutputs::Whole(factors.materialise(em)),
        }
    };
    grads.iter().map(part).collect()
}
