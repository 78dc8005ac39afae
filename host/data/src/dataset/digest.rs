//! All values of a split in a fixed order, for a digest.

use crate::{DataError, Labels, Numbers, Split, Stored};

impl Split {
    /// Passes all values of the split, with their shapes, to `take`, for a digest that identifies the data set.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn digest(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), DataError> {
        fn values<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N], take: &mut dyn FnMut(&[u8])) {
            let mut buffer = Vec::new();
            for part in values.chunks(4096) {
                buffer.clear();
                part.iter().for_each(|value| buffer.extend_from_slice(&bytes(*value)));
                take(&buffer);
            }
        }
        let shape = |kind: u8, shape: &[usize], take: &mut dyn FnMut(&[u8])| {
            take(&[kind]);
            take(&(shape.len() as u64).to_le_bytes());
            shape.iter().for_each(|extent| take(&(*extent as u64).to_le_bytes()));
        };
        let rows = |stored: &Stored, shape: &[usize], take: &mut dyn FnMut(&[u8])| -> Result<(), DataError> {
            let width = shape.iter().product();
            let (mut floats, mut integers, mut bytes) = (vec![0.0; width], vec![0; width], vec![]);
            for row in 0..self.rows {
                // A null sample is zeros, as in memory.
                let is_null = self.is_null(row);
                if stored.is_integer() {
                    integers.fill(0);
                    if !is_null {
                        stored.integers(row, &mut integers, &mut bytes)?;
                    }
                    values(&integers, i64::to_le_bytes, take);
                } else {
                    floats.fill(0.0);
                    if !is_null {
                        stored.floats(row, &mut floats, &mut bytes)?;
                    }
                    values(&floats, f32::to_le_bytes, take);
                }
            }
            Ok(())
        };
        take(&(self.rows as u64).to_le_bytes());
        for features in &self.features {
            match &features.values {
                Numbers::F32(floats) => {
                    shape(1, &features.shape, take);
                    values(floats, f32::to_le_bytes, take);
                }
                Numbers::I64(integers) => {
                    shape(2, &features.shape, take);
                    values(integers, i64::to_le_bytes, take);
                }
                Numbers::Stored(stored) => {
                    shape(if stored.is_integer() { 2 } else { 1 }, &features.shape, take);
                    rows(stored, &features.shape, take)?;
                }
            }
        }
        match &self.labels {
            Labels::Classes { shape: extents, values: classes } => {
                shape(3, extents, take);
                values(classes, i64::to_le_bytes, take);
            }
            Labels::Values { shape: extents, values: floats } => {
                shape(4, extents, take);
                values(floats, f32::to_le_bytes, take);
            }
            Labels::Stored { shape: extents, values: stored } => {
                shape(if stored.is_integer() { 3 } else { 4 }, extents, take);
                rows(stored, extents, take)?;
            }
            Labels::None => take(&[5]),
        }
        values(&self.null, |null| [u8::from(null)], take);
        Ok(())
    }
}
