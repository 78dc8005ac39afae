//! `Conv`: `Y[o] = Σ_c X[c] ⋆ W[o,c] + B[o]` ⇒ `dX` = `dY` convolved, transposed, with `W`; `dW[o,c,k] = Σ_l dY[o,l] ·
//! X[c, patch l, tap k]`; `dB[o] = Σ_l dY[o,l]`.
//!
//! `dW` is factored over the `L` output positions: `A` = unfolded patches `[N, (g,) C/g·K, L]`, `G` = `dY` as
//! `[N, (g,) O/g, L]`, the group axis where the convolution has groups. Few channels, or not so few with many positions,
//! are unfolded by a depthwise convolution with one-hot kernels (exact: products with 0 and 1, sums with 0); many channels
//! without groups by one `Gather` of rows of `C` channels, laid out `[N, L, K·C]`; a 1×1 convolution is its own unfolding.
//!
//! Where the batch is merged with positions (frames, patches), these are positions of the sample: `L` times as many.
//!
//! Memory: the patches, `N·L·C·K` floats, `K` being the number of taps.

use super::Rule;
use crate::autodiff::emit::Var;
use crate::autodiff::factor::{Factors, Side};
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};
use crate::autodiff::window::Window;
use crate::graph::BatchAxis;
use crate::onnx::{make_attr_int, make_attr_ints, make_attr_string};

pub const RULE: Rule = Rule { op: "Conv", pull, cases };

/// Whether patches are unfolded by a convolution rather than gathered (measured with onnxruntime on one thread).
fn unfolds_by_conv(channels: usize, positions: usize) -> bool {
    channels < 16 || channels == 16 && positions >= 64 || channels <= 32 && positions >= 1024
}

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, w, gy) = (p.x_rows(0), p.x(1), p.gy_rows());
    if w.batch.is_some() {
        return Err(p.refuse("its weight depends on the sample", "write it as a batched MatMul of patches"));
    }
    let groups = p.int("group", 1) as usize;
    let window = Window::of(p, &w.shape[2..]);
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

/// Factors of the kernel, for windows over `x` whose products with it have the gradient `gy`.
pub fn weight_factors(p: &mut Pull<'_>, window: &Window, groups: usize, x: &Var, w: &Var, gy: &Var) -> Factors {
    let (channels, outputs) = (x.shape[1], w.shape[0]);
    let (taps, positions) = (window.taps(), window.positions());
    let own_rows = x.shape[0];
    let groups_axis: &[usize] = if groups == 1 { &[] } else { &[groups] };
    let side = |p: &mut Pull<'_>, v: &Var, width: usize| {
        let by_group = [groups_axis, &[width / groups, positions]].concat();
        if own_rows == 1 {
            return Side::positions_last(p.em.per_sample(v, &by_group));
        }
        let by_row = p.em.per_sample(v, &[&[own_rows], &by_group[..]].concat());
        let last = by_row.rank() - 1;
        let inside = p.em.transpose(&by_row, &[&[0], &(2..last).collect::<Vec<_>>()[..], &[1, last]].concat());
        Side::positions_last(p.em.per_sample(&inside, &[groups_axis, &[width / groups, own_rows * positions]].concat()))
    };
    let left = side(p, gy, outputs);
    let by_conv = unfolds_by_conv(channels, positions);
    if groups == 1 && own_rows == 1 && x.is_batch_first() && !window.is_pointwise() {
        return Factors::of_kernel(left, x.clone(), window.clone(), by_conv);
    }
    if window.is_pointwise() || groups > 1 || by_conv {
        let patches = if window.is_pointwise() { x.clone() } else { window.unfold_by_conv(p.em, x) };
        let right = side(p, &patches, channels * taps);
        return Factors::new(left, right).reshape(&w.shape);
    }
    let right = Side::positions_first(window.unfold_by_gather(p.em, x));
    Factors::new(left, right).reshape(&[outputs, taps, channels]).transpose(&[0, 2, 1]).reshape(&w.shape)
}

fn cases() -> Vec<Case> {
    struct Shape<'a> {
        input: &'a [usize],
        weight: &'a [usize],
        output: &'a [usize],
    }
    let one = |name, shape: Shape<'_>, attributes: Vec<_>| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(shape.input), b.param(shape.weight), b.param(&shape.weight[..1]));
        let y = b.node("Conv", &[x, w, c], attributes, &[&[1], shape.output].concat());
        b.case(name, y)
    };
    let s = |input, weight, output| Shape { input, weight, output };
    let first = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.input(&[2, 5, 5]), b.param(&[3, 2, 3, 3]));
        let y = b.node("Conv", &[x, w], vec![], &[1, 3, 3, 3]);
        b.case("first layer, no bias", y)
    };
    let frames = |name, width: usize, groups: usize| {
        let mut b = GraphBuilder::new(17);
        let (x, w, c) = (b.activation(&[2, width, 4, 4]), b.param(&[2, width / groups, 3, 3]), b.param(&[2]));
        let merged = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, width, 4, 4], merged);
        let y = b.node_at("Conv", &[x, w, c], vec![make_attr_int("group", groups as i64)], &[2, 2, 2, 2], merged);
        let y = b.node("Reshape", &[y], vec![], &[1, 2, 2, 2, 2]);
        b.case(name, y)
    };
    let frames_first = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.activation(&[2, 2, 4, 4]), b.param(&[3, 2, 3, 3]));
        let turned = Some(BatchAxis { axis: 1, outer: 1, inner: 1 });
        let x = b.node_at("Transpose", &[x], vec![make_attr_ints("perm", &[1, 0, 2, 3, 4])], &[2, 1, 2, 4, 4], turned);
        let merged = Some(BatchAxis { axis: 0, outer: 2, inner: 1 });
        let x = b.node_at("Reshape", &[x], vec![], &[2, 2, 4, 4], merged);
        let y = b.node_at("Conv", &[x, w], vec![], &[2, 3, 2, 2], merged);
        let y = b.node_at("Reshape", &[y], vec![], &[2, 1, 12], turned);
        let y = b.node_at("Transpose", &[y], vec![make_attr_ints("perm", &[1, 0, 2])], &[1, 2, 12], Some(BATCH_FIRST));
        b.case("frames before the batch", y)
    };
    let parameters = {
        let mut b = GraphBuilder::new(17);
        let (x, v, w, c) = (b.input(&[3, 3, 3]), b.param(&[1, 2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3]));
        let filtered = b.node("Conv", &[v, w, c], vec![], &[1, 3, 3, 3]);
        let y = b.node("Mul", &[x, filtered], vec![], &[1, 3, 3, 3]);
        b.case("of parameters alone", y)
    };
    // As torch.nn.utils.weight_norm is exported: v · (g / ‖v‖).
    let normalised = {
        let mut b = GraphBuilder::new(17);
        let (x, v, g) = (b.activation(&[2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3, 1, 1, 1]));
        let square = b.node("Mul", &[v, v], vec![], &[3, 2, 2, 2]);
        let axes = b.ints(&[1, 2, 3]);
        let sum = b.node("ReduceSum", &[square, axes], vec![make_attr_int("keepdims", 1)], &[3, 1, 1, 1]);
        let norm = b.node("Sqrt", &[sum], vec![], &[3, 1, 1, 1]);
        let scale = b.node("Div", &[g, norm], vec![], &[3, 1, 1, 1]);
        let w = b.node("Mul", &[v, scale], vec![], &[3, 2, 2, 2]);
        let y = b.node("Conv", &[x, w], vec![], &[1, 3, 3, 3]);
        b.case("a normalised weight", y)
    };
    let shared = {
        let mut b = GraphBuilder::new(17);
        let (x, w) = (b.activation(&[2, 4, 4]), b.param(&[2, 2, 3, 3]));
        let pads = || vec![make_attr_ints("pads", &[1, 1, 1, 1])];
        let once = b.node("Conv", &[x, w], pads(), &[1, 2, 4, 4]);
        let twice = b.node("Conv", &[once, w], pads(), &[1, 2, 4, 4]);
        b.case("one weight used twice", twice)
    };
    let scaled = {
        let mut b = GraphBuilder::new(17);
        let (x, w, scale) = (b.activation(&[2, 4, 4]), b.param(&[3, 2, 2, 2]), b.param(&[3, 1, 1, 1]));
        let kernel = b.node("Mul", &[w, scale], vec![], &[3, 2, 2, 2]);
        let y = b.node("Conv", &[x, kernel], vec![], &[1, 3, 3, 3]);
        b.case("a scaled weight", y)
    };
    vec![
        one("plain", s(&[2, 5, 6], &[3, 2, 3, 2], &[3, 3, 5]), vec![]),
        first,
        one(
            "strides that leave a rest, uneven pads",
            s(&[2, 7, 6], &[3, 2, 3, 3], &[3, 4, 3]),
            vec![make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[0, 1, 2, 0])],
        ),
        one(
            "dilations",
            s(&[2, 7, 7], &[3, 2, 3, 2], &[3, 3, 6]),
            vec![make_attr_ints("dilations", &[2, 3]), make_attr_ints("pads", &[0, 1, 0, 1])],
        ),
        one("groups", s(&[4, 4, 4], &[6, 2, 3, 3], &[6, 2, 2]), vec![make_attr_int("group", 2)]),
        one(
            "depthwise",
            s(&[3, 5, 5], &[3, 1, 3, 3], &[3, 3, 3]),
            vec![make_attr_int("group", 3), make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[1, 1, 1, 1])],
        ),
        one("depthwise with a multiplier", s(&[2, 4, 4], &[4, 1, 2, 2], &[4, 3, 3]), vec![make_attr_int("group", 2)]),
        one("many positions", s(&[2, 9, 8], &[2, 2, 3, 3], &[2, 7, 6]), vec![]),
        one("groups, many positions", s(&[4, 8, 8], &[4, 2, 3, 3], &[4, 6, 6]), vec![make_attr_int("group", 2)]),
        one("pointwise", s(&[3, 4, 4], &[2, 3, 1, 1], &[2, 4, 4]), vec![]),
        one(
            "pointwise with strides",
            s(&[3, 4, 5], &[2, 3, 1, 1], &[2, 2, 3]),
            vec![make_attr_ints("strides", &[2, 2])],
        ),
        one("many channels", s(&[18, 4, 4], &[2, 18, 3, 3], &[2, 4, 4]), vec![make_attr_ints("pads", &[1, 1, 1, 1])]),
        one(
            "same upper",
            s(&[2, 5, 6], &[2, 2, 2, 3], &[2, 3, 3]),
            vec![make_attr_string("auto_pad", "SAME_UPPER"), make_attr_ints("strides", &[2, 2])],
        ),
        one(
            "same lower",
            s(&[2, 5, 6], &[2, 2, 2, 3], &[2, 3, 3]),
            vec![make_attr_string("auto_pad", "SAME_LOWER"), make_attr_ints("strides", &[2, 2])],
        ),
        one("valid", s(&[2, 5], &[3, 2, 2], &[3, 4]), vec![make_attr_string("auto_pad", "VALID")]),
        one(
            "1-D",
            s(&[2, 9], &[3, 2, 3], &[3, 4]),
            vec![make_attr_ints("strides", &[2]), make_attr_ints("pads", &[1, 0])],
        ),
        one(
            "3-D",
            s(&[2, 3, 4, 3], &[3, 2, 2, 2, 2], &[3, 2, 2, 3]),
            vec![make_attr_ints("strides", &[1, 2, 1]), make_attr_ints("pads", &[0, 1, 1, 0, 0, 0])],
        ),
        one(
            "1-D depthwise, dilated",
            s(&[3, 9], &[3, 1, 3], &[3, 9]),
            vec![make_attr_int("group", 3), make_attr_ints("dilations", &[2]), make_attr_ints("pads", &[4, 0])],
        ),
        frames("frames merged with the batch", 2, 1),
        frames("frames merged with the batch, groups", 4, 2),
        frames("frames merged with the batch, many channels", 18, 1),
        frames_first,
        parameters,
        normalised,
        shared,
        scaled,
    ]
}
