//! An array of samples, as stored in a file.

use crate::numbers::Values;

/// A row-major array `[N, ...]`.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// Its name in messages: the file, and the array's name if the file has several.
    pub origin: String,
    pub shape: Vec<usize>,
    pub values: Values,
}

impl Array {
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    pub fn sample_shape(&self) -> &[usize] {
        self.shape.get(1..).unwrap_or(&[])
    }
}
