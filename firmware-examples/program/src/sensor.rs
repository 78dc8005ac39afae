//! A simulated sensor: it gives the features of one image at a time, and sees through a mirror, of which whoever trained the extractor
//! knew nothing.

use crate::digits::{Digit, PIXELS};
use crate::extractor::{FEATURES, features};

/// Pixels of a side.
const SIDE: usize = 8;

/// What arrives: features, and what the person says the digit is.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The frozen extractor's outputs.
    pub features: [f32; FEATURES],
    /// Which digit it is.
    pub label: u8,
}

/// The reading of a digit.
#[must_use]
pub fn read(digit: Digit) -> Reading {
    let mut mirrored = [0; PIXELS];
    for (at, pixel) in digit.pixels.iter().take(PIXELS).enumerate() {
        let (row, column) = (at / SIDE, at % SIDE);
        if let Some(place) = mirrored.get_mut(row * SIDE + (SIDE - 1 - column)) {
            *place = *pixel;
        }
    }
    Reading { features: features(&mirrored), label: digit.label }
}
