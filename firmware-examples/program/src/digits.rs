//! Handwritten digits in flash: 300 to train on, 100 held out.
//!
//! Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
//! doi:10.24432/C50P49, CC BY 4.0. `data/digits.py` writes the file.

/// Pixels of a digit, 8×8.
pub const PIXELS: usize = 64;
/// Classes, one for each digit.
pub const CLASSES: usize = 10;
/// Digits to train on.
pub const TRAIN: u32 = 300;

static DIGITS: &[u8; 400 * (PIXELS + 1)] = include_bytes!("../data/digits.bin");

/// One digit.
#[derive(Clone, Copy)]
pub struct Digit {
    /// Brightness from 0 to 16, row by row.
    pub pixels: &'static [u8],
    /// The digit, 0 to 9.
    pub label: u8,
}

impl Digit {
    /// Returns the pixels as model inputs: 0 to 1, exactly.
    pub fn inputs(&self) -> impl Iterator<Item = f32> + Clone {
        self.pixels.iter().map(|pixel| f32::from(*pixel) * 0.0625)
    }
}

fn all() -> impl Iterator<Item = Digit> {
    DIGITS.chunks_exact(PIXELS + 1).filter_map(|bytes| {
        let (label, pixels) = bytes.split_last()?;
        Some(Digit { pixels, label: *label })
    })
}

/// Returns training digit `index`.
#[must_use]
pub fn train(index: u32) -> Option<Digit> {
    all().take(TRAIN as usize).nth(index as usize)
}

/// Returns the held-out digits.
pub fn held_out() -> impl Iterator<Item = Digit> {
    all().skip(TRAIN as usize)
}
