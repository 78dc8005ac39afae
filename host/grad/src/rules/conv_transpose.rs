//! `ConvTranspose`: the transpose of a convolution with windows over `Y`, one for each element of `X`:
//! `Y = Xᵀ ⋆ᵀ W + B` ⇒ `dX` = convolution of `dY` with `W`, `dW[c,o,k] = Σ_l X[c,l] · dY[o, patch l, tap k]`,
//! `dB[o] = Σ dY[o]`.
//!
//! `dW` is factored over the `L` **input** positions. `A` = `X` as `[N, (g,) C/g, L]`, and `G` = unfolded patches of
//! `dY`, like those of `Conv` with `X` and `dY` swapped.
//!
//! Memory: the patches, `N·L·O·K` floats, with `K` the number of taps.

use super::conv::weight_factors;
use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::window::SlidingWindow;

pub const RULE: GradRule = GradRule { op: "ConvTranspose", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, w, gy) = (p.x_rows(0), p.x(1), p.gy_rows());
    let groups = p.int("group", 1) as usize;
    let window = SlidingWindow::of_transposed(p, &w.shape[2..]);
    if p.wants(2) {
        let spatial: Vec<usize> = (2..gy.rank()).collect();
        let gb = p.em.reduce_sum(&gy, &spatial, false);
        p.gx(2, gb);
    }
    if p.wants(0) {
        let gx = window.conv(p.em, &gy, &w, groups);
        p.gx_rows(0, gx);
    }
    if p.wants(1) {
        let factors = weight_factors(p, &window, groups, &gy, &w, &x);
        p.gx_factored(1, factors);
    }
    Ok(())
}
