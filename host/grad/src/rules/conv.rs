//! `Conv`: `Y[o] = Σ_c X[c] ⋆ W[o,c] + B[o]` ⇒ `dX` = transposed convolution of `dY` with `W`,
//! `dW[o,c,k] = Σ_l dY[o,l] · X[c, patch l, tap k]`, `dB[o] = Σ_l dY[o,l]`.
//!
//! `dW` is factored over the `L` output positions. `A` = unfolded patches `[N, (g,) C/g·K, L]`, and `G` = `dY` as
//! `[N, (g,) O/g, L]`, with the group axis if the convolution has groups. Few channels, or somewhat more with many
//! positions, are unfolded by a depthwise convolution with one-hot kernels. This is exact: products with 0 and 1, sums
//! with 0. Many channels without groups are unfolded by one `Gather` of rows of `C` channels, with the layout
//! `[N, L, K·C]`. A 1×1 convolution is its own unfolding.
//!
//! If the batch is merged with positions (frames, patches), these are also positions of the sample: `L` times as many.
//!
//! Memory: the patches, `N·L·C·K` floats, with `K` the number of taps.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::Var;
use crate::factor::{FactorSide, FactoredGrad};
use crate::window::SlidingWindow;

pub const RULE: GradRule = GradRule { op: "Conv", backward };

/// Returns true if a convolution unfolds patches instead of a gather (measured with onnxruntime on one thread).
fn unfolds_by_conv(channels: usize, positions: usize) -> bool {
    channels < 16 || channels == 16 && positions >= 64 || channels <= 32 && positions >= 1024
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, w, gy) = (p.x_rows(0), p.x(1), p.gy_rows());
    if w.batch.is_some() {
        return Err(p.refuse("its weight depends on the sample", "write it as a batched MatMul of patches"));
    }
    let groups = p.int("group", 1) as usize;
    let window = SlidingWindow::of(p, &w.shape[2..]);
    if p.wants(2) {
        let spatial: Vec<usize> = (2..gy.rank()).collect();
        let gb = p.em.reduce_sum(&gy, &spatial, false);
        p.gx(2, gb);
    }
    if p.wants(0) {
        let gx = window.conv_transpose(p.em, &gy, &w, groups);
        p.gx_rows(0, gx);
    }
    if p.wants(1) {
        let factors = weight_factors(p, &window, groups, &x, &w, &gy);
        p.gx_factored(1, factors);
    }
    Ok(())
}

/// Factors of the kernel's gradient, for windows over `x` whose products with the kernel have the gradient `gy`.
pub fn weight_factors(
    p: &mut BackwardContext<'_>,
    window: &SlidingWindow,
    groups: usize,
    x: &Var,
    w: &Var,
    gy: &Var,
) -> FactoredGrad {
    let (channels, outputs) = (x.shape[1], w.shape[0]);
    let (taps, positions) = (window.taps(), window.positions());
    let own_rows = x.shape[0];
    let groups_axis: &[usize] = if groups == 1 { &[] } else { &[groups] };
    let side = |p: &mut BackwardContext<'_>, v: &Var, width: usize| {
        let by_group = [groups_axis, &[width / groups, positions]].concat();
        if own_rows == 1 {
            return FactorSide::positions_last(p.em.per_sample(v, &by_group));
        }
        let by_row = p.em.per_sample(v, &[&[own_rows], &by_group[..]].concat());
        let last = by_row.rank() - 1;
        let inside = p.em.transpose(&by_row, &[&[0], &(2..last).collect::<Vec<_>>()[..], &[1, last]].concat());
        FactorSide::positions_last(
            p.em.per_sample(&inside, &[groups_axis, &[width / groups, own_rows * positions]].concat()),
        )
    };
    let left = side(p, gy, outputs);
    let by_conv = unfolds_by_conv(channels, positions);
    if groups == 1 && own_rows == 1 && x.is_batch_first() && !window.is_pointwise() {
        return FactoredGrad::of_kernel(left, x.clone(), window.clone(), by_conv);
    }
    if groups > 1 && own_rows == 1 && x.is_batch_first() {
        return FactoredGrad::of_grouped_kernel(left, x.clone(), window.clone(), groups);
    }
    if window.is_pointwise() || groups > 1 || by_conv {
        let patches = if window.is_pointwise() { x.clone() } else { window.unfold_by_conv(p.em, x) };
        let right = side(p, &patches, channels * taps);
        return FactoredGrad::new(left, right).reshape(&w.shape);
    }
    let right = FactorSide::positions_first(window.unfold_by_gather(p.em, x));
    FactoredGrad::new(left, right).reshape(&[outputs, taps, channels]).transpose(&[0, 2, 1]).reshape(&w.shape)
}
