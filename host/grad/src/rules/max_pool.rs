//! `MaxPool`: `Y[l]` = maximum tap of window `l` ⇒ `dX` at that tap `+= dY[l]`. Of equal taps, the first in row-major
//! order takes the whole gradient, as in PyTorch.
//!
//! The taps pass the gradient on. Tap `t` keeps `R` if it equals `Y` and passes on the rest, `R − kept`. This is exact
//! because each element is either kept or passed on. The last tap takes the rest.
//!
//! Overlapping windows are processed one axis at a time: the maximum of each line, then of the lines. The first of the
//! equal taps in the first of the equal lines is the first in row-major order. The number of taps is then the sum of
//! the window's sides, not their product.
//!
//! Memory: the kept gradients, `K` times the size of `Y`, with `K` the number of taps.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::custom::max_pool_grad;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use crate::window::SlidingWindow;

pub const RULE: GradRule = GradRule { op: "MaxPool", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let window = SlidingWindow::of_pool(p)?;
    let (x, y, gy) = (p.x_rows(0), p.y_rows(), p.gy_rows());
    let stages = if window.tiles() { vec![window] } else { window.by_axis() };
    let stride = match &stages[..] {
        [columns, lines] if columns.pairs() == Some(1) && lines.pairs() == Some(0) => Some(1),
        [tiles] if tiles.kernel == [2, 2] => Some(2),
        _ => None,
    };
    let lowering = |em: &mut Emitter| hand_back_by(em, &stages, &x, &y, &gy);
    let tiles = match &stages[..] {
        [tiles] if tiles.tiles() && tiles.kernel.len() <= 2 => Some(&*tiles.kernel),
        _ => None,
    };
    let grad = max_pool_grad(p.em, (stride, tiles), [&gy, &x, &y], lowering);
    p.gx_rows(0, grad);
    Ok(())
}

/// Gradient of `x`. `y` is the maximum under each window of all stages in sequence, and has the gradient `gy`.
fn hand_back_by(em: &mut Emitter, stages: &[SlidingWindow], x: &Var, y: &Var, gy: &Var) -> Var {
    let mut largest = vec![x.clone()];
    for stage in stages.iter().take(stages.len().saturating_sub(1)) {
        let next = stage.largest(em, &largest[largest.len() - 1]);
        largest.push(next);
    }
    let mut grad = gy.clone();
    let mut above = y.clone();
    for (stage, x) in stages.iter().zip(&largest).rev() {
        grad = hand_back(em, stage, x, &above, grad);
        above = x.clone();
    }
    grad
}

/// Gradient of `x`. `y` is the maximum under each window over it, and has the gradient `gy`.
fn hand_back(em: &mut Emitter, window: &SlidingWindow, x: &Var, y: &Var, gy: Var) -> Var {
    let zero = em.scalar(gy.dtype, 0.0);
    let padded = window.padded(em, x, f64::NEG_INFINITY);
    let offsets = window.offsets();
    let mut rest = gy;
    let mut kept = Vec::new();
    for offset in &offsets[..offsets.len() - 1] {
        let tap = window.tap(em, &padded, offset);
        let is_max = em.compare("Equal", &tap, y);
        let keep = em.choose(&is_max, &rest, &zero);
        rest = em.sub(&rest, &keep);
        kept.push(keep);
    }
    kept.push(rest);
    scatter(em, window, &kept)
}

/// Sums the kept gradients, each `[N, C, *output]`, at the positions of their taps.
fn scatter(em: &mut Emitter, window: &SlidingWindow, kept: &[Var]) -> Var {
    let (shape, batch) = (kept[0].shape.clone(), kept[0].batch);
    let (rows, channels, output) = (shape[0], shape[1], &window.output);
    if let ([first, second], Some(axis)) = (kept, window.pairs()) {
        // Neighbours share all elements except the ends.
        let (axis, count) = (axis + 2, output[axis]);
        if count == 1 {
            return em.concat(&[first, second], axis);
        }
        let part = |em: &mut Emitter, v: &Var, start: usize, count: usize| em.slice(v, &[(axis, start, 1, count)]);
        let (start, end) = (part(em, first, 0, 1), part(em, second, count - 1, 1));
        let (left, right) = (part(em, first, 1, count - 1), part(em, second, 0, count - 1));
        let shared = em.add(&left, &right);
        return em.concat(&[&start, &shared, &end], axis);
    }
    if let ([lines, columns], true) = (&window.kernel[..], window.tiles()) {
        // Windows tile the plane, so interleave.
        let mut planes = Vec::new();
        for line in kept.chunks(*columns) {
            let parts: Vec<Var> = line.iter().map(|v| em.reshape(v, &[&shape[..], &[1]].concat(), batch)).collect();
            let line = em.concat(&parts.iter().collect::<Vec<_>>(), 4);
            let flat = [rows, channels, output[0], 1, output[1] * columns];
            planes.push(em.reshape(&line, &flat, batch));
        }
        let plane = em.concat(&planes.iter().collect::<Vec<_>>(), 3);
        return em.reshape(&plane, &[rows, channels, output[0] * lines, output[1] * columns], batch);
    }
    let stacked_shape = [&[rows, channels, 1], &output[..]].concat();
    let parts: Vec<Var> = kept.iter().map(|v| em.reshape(v, &stacked_shape, batch)).collect();
    let stacked = em.concat(&parts.iter().collect::<Vec<_>>(), 2);
    let patches = em.reshape(&stacked, &[&[rows, channels * kept.len()], &output[..]].concat(), batch);
    window.fold(em, &patches)
}
