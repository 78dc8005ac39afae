//! Slow and simple reference for the contribution of a sample.

use damper_core::clip::{AnyRule, Clip as _, Layer};

/// Norm by blocks of 1024 coordinates: lanes in f32, totals in two f32s. Not finite if the sample has no norm.
pub(super) fn norm(grad: &[f32]) -> f32 {
    let (mut high, mut low) = (0f32, 0f32);
    for block in grad.chunks(1024) {
        let mut l = [0f32; 8];
        for (i, x) in block.iter().enumerate() {
            l[i % 8] += x * x;
        }
        let total = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
        let sum = high + total;
        let back = sum - high;
        low += (high - (sum - back)) + (total - back);
        high = sum;
    }
    (high + low).sqrt()
}

fn divisor(rule: AnyRule, norm: f32, threshold: f32) -> f32 {
    match rule {
        AnyRule::Flat => {
            if norm > threshold {
                norm
            } else {
                threshold
            }
        }
        AnyRule::Automatic(rule) => rule.divisor(norm, threshold),
    }
}

/// Integers of coordinates that are clipped together, at the first scale for which their squares are within the bound.
fn segment(grad: &[f32], units: u32, first: f32) -> Vec<i64> {
    if !first.is_finite() {
        return vec![0; grad.len()];
    }
    let (mut scale, mut shrink) = (first, 2f32.powi(-20));
    loop {
        let units = f64::from(units);
        let integers: Vec<i64> =
            grad.iter().map(|g| f64::from(g * scale).clamp(-units, units).trunc() as i64).collect();
        if integers.iter().map(|q| i128::from(q * q)).sum::<i128>() <= (units * units) as i128 {
            return integers;
        }
        scale *= 1.0 - shrink;
        shrink *= 2.0;
    }
}

/// Norm of a sample, and its contribution to each coordinate.
pub(super) fn sample(
    grad: &[f32],
    bits: u32,
    threshold: f32,
    rule: AnyRule,
    layers: Option<&[Layer]>,
) -> (Option<f32>, Vec<i64>) {
    let whole = norm(grad);
    if !whole.is_finite() {
        return (None, vec![0; grad.len()]);
    }
    let Some(layers) = layers else {
        let units = 1u32 << bits;
        return (Some(whole), segment(grad, units, units as f32 / divisor(rule, whole, threshold)));
    };
    let mut rest = grad;
    let mut all = Vec::new();
    for layer in layers {
        let (here, after) = rest.split_at(layer.len);
        let units = layer.share >> (22 - bits);
        let threshold = threshold * (layer.share as f32 / 4_194_304.0);
        all.extend(segment(here, units, units as f32 / divisor(rule, norm(here), threshold)));
        rest = after;
    }
    (Some(whole), all)
}
