//! The `per-sample` readout for a reader that multiplies: a gradient that is one outer product comes as its two factors.
//!
//! A linear layer met once by each sample has the gradient `l ⊗ r`. The product of two floats has the same bits whoever takes
//! it, and a reader that takes it one sample at a time keeps it in the processor's caches.
//!
//! Memory: `N · (r + c)` floats for a gradient of `r · c`; `N · len` for others.

use super::Read;
use crate::autodiff::emit::{Emitter, Var};
use crate::autodiff::factor::Grad;

/// Entries from which on two outputs are cheaper than one.
const LEAST: usize = 1 << 10;

/// What is read of one parameter's gradient.
pub enum Part {
    /// `[N, *shape]`.
    Whole(Var),
    /// `[N, r]` and `[N, c]`: their outer product, in row-major order, is the gradient.
    Outer(Var, Var),
}

/// One part a parameter.
pub fn factored(em: &mut Emitter, grads: &[Read]) -> Vec<Part> {
    let part = |read: &Read| match &read.grad {
        Grad::Factored(factors) if factors.len() >= LEAST => match factors.outer(em) {
            Some((left, right)) => Part::Outer(left, right),
            None => Part::Whole(factors.materialise(em)),
        },
        grad => Part::Whole(grad.dense(em)),
    };
    grads.iter().map(part).collect()
}
