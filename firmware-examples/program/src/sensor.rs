//! A simulated sensor. It gives the features of one image at a time, and sees through a mirror, which the extractor was
//! not trained for.

use crate::digits::{Digit, PIXELS};
use crate::extractor::{FEATURES, features};

/// Pixels of a side.
const SIDE: usize = 8;

/// An arriving sample: features, and the digit as labelled by the person.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The frozen extractor's outputs.
    pub features: [f32; FEATURES],
    /// The digit.
    pub label: u8,
}

/// Returns the reading of a digit.
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
