//! Frozen feature extractor with its public last layer. `data/extractor.py` trains both on other digits.
//!
//! All values are integers, except for the last product, so the features have the same bits everywhere.

use crate::digits::{CLASSES, PIXELS};

/// Features.
pub const FEATURES: usize = 24;
/// Parameters of the last layer: a row of `FEATURES` weights for each class, then the biases.
pub const DIM: usize = CLASSES * (FEATURES + 1);

const BYTES: usize = FEATURES * (PIXELS + 2) + DIM;
static FILE: &[u8; BYTES] = include_bytes!("../data/extractor.bin");

/// Returns the features of an image, 0 to about 11: `max(0, w·pixels + b) / 2¹⁰`.
#[must_use]
pub fn features(pixels: &[u8; PIXELS]) -> [f32; FEATURES] {
    let (weights, rest) = FILE.split_at(FEATURES * PIXELS);
    let mut features = [0.0; FEATURES];
    for ((feature, row), bias) in features.iter_mut().zip(weights.chunks_exact(PIXELS)).zip(rest.chunks_exact(2)) {
        let mut sum = bias.first_chunk().map_or(0, |bytes| i32::from(i16::from_le_bytes(*bytes)));
        for (weight, pixel) in row.iter().zip(pixels) {
            sum += i32::from(i8::from_le_bytes([*weight])) * i32::from(*pixel);
        }
        *feature = sum.max(0) as f32 / 1024.0;
    }
    features
}

/// Writes the public last layer to `params` (`[DIM]`).
pub fn public_layer(params: &mut [f32; DIM]) {
    for (param, byte) in params.iter_mut().zip(FILE.iter().skip(BYTES - DIM)) {
        *param = f32::from(i8::from_le_bytes([*byte])) * 0.015625;
    }
}
