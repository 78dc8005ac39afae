//! Rows of a split that do not fit in memory. A draw reads them from a file, one row at a time.

use super::scaling::Scaling;
use crate::DataError;
use crate::numbers::{Element, FileValues, rounded};
use std::sync::Arc;

/// Samples in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    pub(crate) values: FileValues,
    pub(crate) kind: StoredKind,
    /// Number of values in a sample.
    pub(crate) width: usize,
    /// The rows of the file. All rows if not given.
    pub(crate) rows: Option<Arc<[u32]>>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum StoredKind {
    /// Bytes, which are scaled when read.
    Bytes(Scaling),
    F32,
    /// Floats, which are rounded after scaling.
    F64,
    I64,
}

impl StoredKind {
    /// Returns the size of a value in bytes.
    fn width(&self) -> usize {
        match self {
            Self::Bytes(_) => u8::WIDTH,
            Self::F32 => f32::WIDTH,
            Self::F64 => f64::WIDTH,
            Self::I64 => i64::WIDTH,
        }
    }
}

impl Stored {
    /// Creates samples from all rows of a file.
    pub(crate) fn all(values: FileValues, kind: StoredKind, width: usize) -> Self {
        Self { values, kind, width, rows: None }
    }

    /// Returns true if the samples are integers.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self.kind, StoredKind::I64)
    }

    /// Selects the samples `rows`.
    pub(crate) fn select(&self, rows: impl Iterator<Item = usize>) -> Self {
        let of_file = |row: usize| self.rows.as_ref().map_or(row as u32, |rows| rows[row]);
        let rows: Arc<[u32]> = rows.map(of_file).collect();
        match self.values.selected(self.width * self.kind.width(), rows.iter().map(|row| *row as usize)) {
            Some(values) => Self { values, rows: None, ..self.clone() },
            None => Self { rows: Some(rows), ..self.clone() },
        }
    }

    /// Returns the size of all `rows` samples in bytes, if they are in a file.
    pub(crate) fn bytes_in_file(&self, rows: usize) -> Option<u64> {
        let row = (self.width * self.kind.width()) as u64;
        self.values.are_in_file().then(|| row.saturating_mul(rows as u64))
    }

    /// Loads the same `rows` samples into memory, in the file's format.
    pub(crate) fn loaded(&self, rows: usize) -> Result<Self, DataError> {
        let of_file = |row: usize| self.rows.as_ref().map_or(row, |rows| rows[row] as usize);
        let values = self.values.loaded(self.width * self.kind.width(), rows, (0..rows).map(of_file))?;
        Ok(Self { values, rows: None, ..self.clone() })
    }

    /// Reads the bytes of a sample into `bytes`.
    fn read(&self, row: usize, width: usize, bytes: &mut Vec<u8>) -> Result<(), DataError> {
        let row = self.rows.as_ref().map_or(row as u64, |rows| u64::from(rows[row]));
        bytes.resize(self.width * width, 0);
        self.values.read(row * bytes.len() as u64, bytes)
    }

    /// Reads a sample of floats. `bytes` is a reused buffer.
    pub(crate) fn floats(&self, row: usize, to: &mut [f32], bytes: &mut Vec<u8>) -> Result<(), DataError> {
        self.scaled_floats(row, None, to, bytes)
    }

    /// Reads a sample of floats, and scales it again after reading.
    pub(crate) fn scaled_floats(
        &self,
        row: usize,
        scaling: Option<&Scaling>,
        to: &mut [f32],
        bytes: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        match &self.kind {
            StoredKind::Bytes(of_bytes) => {
                self.read(row, u8::WIDTH, bytes)?;
                for (to, byte) in to.iter_mut().zip(bytes.iter()) {
                    *to = of_bytes.byte(*byte);
                }
                of_bytes.apply_to_bytes(to, self.width);
                scaling.iter().for_each(|scaling| scaling.apply_to_bytes(to, self.width));
            }
            StoredKind::F64 => {
                self.read(row, f64::WIDTH, bytes)?;
                for (at, (to, bytes)) in to.iter_mut().zip(bytes.as_chunks().0).enumerate() {
                    let constants = scaling.and_then(|scaling| scaling.constants(at));
                    *to = rounded(f64::from_le_bytes(*bytes).into(), constants);
                }
            }
            _ => {
                self.read(row, f32::WIDTH, bytes)?;
                for (to, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
                    *to = f32::from_le_bytes(*bytes);
                }
                scaling.iter().for_each(|scaling| scaling.apply(to, self.width));
            }
        }
        Ok(())
    }

    /// Reads a sample in the file's precision, if its floats are not rounded yet.
    pub(crate) fn wide(&self, row: usize, to: &mut [f64]) -> Result<bool, DataError> {
        let is_wide = matches!(self.kind, StoredKind::F64);
        if is_wide {
            let mut bytes = Vec::new();
            self.read(row, f64::WIDTH, &mut bytes)?;
            to.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, bytes)| *to = f64::from_le_bytes(*bytes));
        }
        Ok(is_wide)
    }

    /// Reads a sample of integers.
    pub(crate) fn integers(&self, row: usize, to: &mut [i64], bytes: &mut Vec<u8>) -> Result<(), DataError> {
        self.read(row, i64::WIDTH, bytes)?;
        for (to, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
            *to = i64::from_le_bytes(*bytes);
        }
        Ok(())
    }
}
