//! The `per-sample` readout for a reader that multiplies: a gradient that is one outer product, a convolution's kernel's, or a table's,
//! comes as its two factors.
//!
//! A linear layer met once by each sample has the gradient `l ⊗ r`, one met at several positions (tokens) the sum of `l_t ⊗ r_t`; that of a
//! kernel is the sum over the windows of `l_t ⊗ patch_t`.
//! A reader that takes them one sample at a time keeps them in the processor's caches, and reads the patches where they lie:
//! unfolded they are as many times the input as a window has taps.
//!
//! Of a table's rows (an embedding) at most one a position is not zero: the reader gets these alone.
//!
//! Memory: `N · T · (r + c)` floats for outer products of `r · c` at `T` positions; those of the input and of the output for a kernel; `N · len` for
//! others.

use super::read::ParamGrad;
use crate::emit::{Emitter, Var};
use crate::factor::{Grad, KernelFactors};

/// Entries from which on two outputs are cheaper than one.
const LEAST: usize = 1 << 10;

/// The outputs for one parameter's gradient.
pub enum GradOutputs {
    /// `[N, *shape]`.
    Whole(Var),
    /// `[N, r]` and `[N, c]`: their outer product, in row-major order, is the gradient.
    Outer(Var, Var),
    /// `[N, T, r]` and `[N, T, c]`: the sum over the positions of their outer products.
    Positions(Var, Var),
    /// `[N, T]` and `[N, T, c]`: position `t` adds its row to that of the gradient whose index it has.
    Rows(Var, Var),
    /// The gradient of a kernel is the sum over the windows of the left's vector times the input's patch, in each group.
    Kernel(KernelFactors),
}

impl GradOutputs {
    /// Multiply-adds of one sample that are left to the reader.
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

/// One part a parameter. With `positions` the reader computes sums over them, if the factors are smaller than the sum. With `groups` it
/// computes the kernels of grouped convolutions.
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
