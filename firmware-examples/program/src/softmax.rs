//! Softmax regression on one digit at a time, in f32 with the core's rules: sums in index order, nothing fused, the
//! exponential from [`damper_core::numerics::function`].
//!
//! Parameters: a row of `PIXELS` weights for each of `CLASSES`, then `CLASSES` biases.

use crate::digits::{Digit, PIXELS};
use damper_core::numerics::function::exp_f32;

/// Classes.
pub const CLASSES: usize = 10;
/// Parameters.
pub const DIM: usize = CLASSES * PIXELS + CLASSES;

/// Pixels as the model sees them: 0 to 1, exactly.
fn input(pixel: &u8) -> f32 {
    f32::from(*pixel) * 0.0625
}

/// The score of each class.
fn scores(params: &[f32; DIM], digit: Digit) -> [f32; CLASSES] {
    let (weights, biases) = params.split_at(CLASSES * PIXELS);
    let mut scores = [0.0; CLASSES];
    for ((score, row), bias) in scores.iter_mut().zip(weights.chunks_exact(PIXELS)).zip(biases) {
        *score = *bias;
        for (weight, pixel) in row.iter().zip(digit.pixels) {
            *score += weight * input(pixel);
        }
    }
    scores
}

/// Writes the gradient (`[DIM]`) of the cross-entropy of one digit to `grad`.
#[inline(never)] // So that an image shows what of it is the model.
pub fn gradient(params: &[f32; DIM], digit: Digit, grad: &mut [f32; DIM]) {
    let mut errors = scores(params, digit);
    let largest = errors.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    let mut total = 0.0;
    for score in &mut errors {
        *score = exp_f32(*score - largest);
        total += *score;
    }
    for (class, error) in errors.iter_mut().enumerate() {
        *error /= total;
        if class == usize::from(digit.label) {
            *error -= 1.0;
        }
    }
    let (weights, biases) = grad.split_at_mut(CLASSES * PIXELS);
    for ((row, bias), error) in weights.chunks_exact_mut(PIXELS).zip(biases).zip(errors) {
        for (weight, pixel) in row.iter_mut().zip(digit.pixels) {
            *weight = error * input(pixel);
        }
        *bias = error;
    }
}

/// Whether the model names the digit.
#[must_use]
pub fn is_right(params: &[f32; DIM], digit: Digit) -> bool {
    let scores = scores(params, digit);
    let mut best = (0, f32::NEG_INFINITY);
    for (class, score) in scores.into_iter().enumerate() {
        if score > best.1 {
            best = (class, score);
        }
    }
    best.0 == usize::from(digit.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits;

    extern crate std;
    use std::vec::Vec;

    fn loss(params: &[f64], digit: Digit) -> f64 {
        let scores: Vec<f64> = (0..CLASSES)
            .map(|class| {
                let row = &params[class * PIXELS..][..PIXELS];
                let dot: f64 = row.iter().zip(digit.pixels).map(|(w, p)| w * f64::from(*p) / 16.0).sum();
                dot + params[CLASSES * PIXELS + class]
            })
            .collect();
        scores.iter().map(|s| s.exp()).sum::<f64>().ln() - scores[usize::from(digit.label)]
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_cross_entropy() {
        let mut params = [0.0; DIM];
        for (i, param) in params.iter_mut().enumerate() {
            *param = ((i * 37 % 101) as f32 - 50.0) / 400.0;
        }
        let mut grad = [f32::NAN; DIM];
        for index in [0, 7, 123] {
            let digit = digits::train(index).unwrap();
            gradient(&params, digit, &mut grad);
            for (i, slope) in grad.iter().enumerate() {
                let mut near: Vec<f64> = params.iter().map(|p| f64::from(*p)).collect();
                near[i] += 1e-5;
                let above = loss(&near, digit);
                near[i] -= 2e-5;
                let difference = (above - loss(&near, digit)) / 2e-5;
                assert!((difference - f64::from(*slope)).abs() < 2e-6, "parameter {i}: {difference} {slope}");
            }
        }
    }
}
