//! Selection of some rows of a split, or loading of all rows into memory.

use super::held_out::held_out;
use super::stored::StoredKind;
use crate::{DataError, Features, Labels, Numbers, Split, Stored};
use std::ops::Range;

impl Split {
    /// Drops all other rows from memory. Rows keep their indices, and N does not change. Batches may read only the
    /// remaining rows.
    pub fn keep_rows(&mut self, rows: Range<usize>) {
        let kept = self.select(|row| rows.contains(&row));
        *self = Self { rows: self.rows, held: Some(rows), ..kept };
    }

    /// Loads the rows from files into memory, for each array with at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn load_rows(&mut self, limit: u64) -> Result<(), DataError> {
        let held = self.rows_held().len();
        let fits = |stored: &Stored| stored.bytes_in_file(held).is_some_and(|bytes| bytes <= limit);
        for index in 0..self.features.len() {
            if let Numbers::Stored(stored) = &self.features[index].values
                && fits(stored)
            {
                self.features[index].values = self.loaded(stored, held)?;
            }
        }
        if let Labels::Stored { shape, values } = &self.labels
            && fits(values)
        {
            self.labels = labels(shape.clone(), self.loaded(values, held)?);
        }
        Ok(())
    }

    /// Loads the `held` rows of `stored` into memory. Bytes stay bytes, and floats that are rounded later keep their
    /// bits.
    fn loaded(&self, stored: &Stored, held: usize) -> Result<Numbers, DataError> {
        let is_null = |row: usize| self.null.get(row).copied().unwrap_or(false);
        match stored.kind {
            StoredKind::I64 | StoredKind::F32 => read(stored, held, is_null),
            _ => stored.loaded(held).map(Numbers::Stored),
        }
    }

    /// Splits off the rows that the rule of [`TestSource::Fraction`](crate::TestSource::Fraction) holds out. Returns
    /// the other rows first. Returns `None` if either part would be empty.
    pub fn hold_out(&self, fraction: f64, seed: u64) -> Option<(Split, Split)> {
        self.split_by(&held_out(self.rows, fraction, seed, None))
    }

    /// Does the same as [`hold_out`](Self::hold_out) with the same fraction of each class. Classes must be public.
    pub(crate) fn hold_out_of_classes(&self, fraction: f64, seed: u64) -> Option<(Split, Split)> {
        match &self.labels {
            Labels::Classes { values, .. } if values.len() == self.rows => {
                self.split_by(&held_out(self.rows, fraction, seed, Some(values)))
            }
            _ => None,
        }
    }

    fn split_by(&self, held_out: &[bool]) -> Option<(Split, Split)> {
        let (train, test) = (self.select(|row| !held_out[row]), self.select(|row| held_out[row]));
        (!train.is_empty() && !test.is_empty()).then_some((train, test))
    }

    /// Returns the same samples, all in memory.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn in_memory(&self) -> Result<Split, DataError> {
        let all = |stored: &Stored| read(stored, self.rows, |row| self.is_null(row));
        let mut split = self.clone();
        for features in &mut split.features {
            if let Numbers::Stored(stored) = &features.values {
                features.values = all(stored)?;
            }
        }
        if let Labels::Stored { shape, values } = &self.labels {
            split.labels = labels(shape.clone(), all(values)?);
        }
        Ok(split)
    }

    pub(crate) fn first(&self, size: usize) -> Split {
        self.select(|row| row < size)
    }

    fn select(&self, keep: impl Fn(usize) -> bool) -> Split {
        fn rows<T: Copy>(values: &[T], shape: &[usize], rows: usize, keep: &dyn Fn(usize) -> bool) -> Vec<T> {
            let width = shape.iter().product::<usize>();
            let mut kept = Vec::new();
            for row in (0..rows).filter(|row| keep(*row)) {
                kept.extend_from_slice(&values[row * width..][..width]);
            }
            kept
        }
        let null = rows(&self.null, &[], self.null.len(), &keep);
        Split {
            rows: (0..self.rows).filter(|row| keep(*row)).count(),
            features: self
                .features
                .iter()
                .map(|features| Features {
                    shape: features.shape.clone(),
                    values: match &features.values {
                        Numbers::F32(values) => Numbers::F32(rows(values, &features.shape, self.rows, &keep)),
                        Numbers::I64(values) => Numbers::I64(rows(values, &features.shape, self.rows, &keep)),
                        Numbers::Stored(stored) => {
                            Numbers::Stored(stored.select((0..self.rows).filter(|row| keep(*row))))
                        }
                    },
                })
                .collect(),
            labels: match &self.labels {
                Labels::Classes { shape, values } => {
                    Labels::Classes { shape: shape.clone(), values: rows(values, shape, self.rows, &keep) }
                }
                Labels::Values { shape, values } => {
                    Labels::Values { shape: shape.clone(), values: rows(values, shape, self.rows, &keep) }
                }
                Labels::Stored { shape, values } => Labels::Stored {
                    shape: shape.clone(),
                    values: values.select((0..self.rows).filter(|row| keep(*row))),
                },
                Labels::None => Labels::None,
            },
            null,
            held: None,
            are_bytes: self.are_bytes.clone(),
            label_scale: self.label_scale,
        }
    }
}

/// Loads the samples `0 .. rows` of `stored` into memory. Null samples become zeros.
fn read(stored: &Stored, rows: usize, is_null: impl Fn(usize) -> bool) -> Result<Numbers, DataError> {
    let (width, mut bytes) = (stored.width, Vec::new());
    let mut read = (0..rows).filter(|row| !is_null(*row));
    if stored.is_integer() {
        let mut values = vec![0; rows * width];
        read.try_for_each(|row| stored.integers(row, &mut values[row * width..][..width], &mut bytes))?;
        Ok(Numbers::I64(values))
    } else {
        let mut values = vec![0.0; rows * width];
        read.try_for_each(|row| stored.floats(row, &mut values[row * width..][..width], &mut bytes))?;
        Ok(Numbers::F32(values))
    }
}

/// Returns labels with these values. Integers are classes.
fn labels(shape: Vec<usize>, values: Numbers) -> Labels {
    match values {
        Numbers::I64(values) => Labels::Classes { shape, values },
        Numbers::F32(values) => Labels::Values { shape, values },
        Numbers::Stored(values) => Labels::Stored { shape, values },
    }
}
