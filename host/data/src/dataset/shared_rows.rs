//! Rows that two splits share.
//!
//! Rows are compared by 64-bit hashes, which stay in memory. The result depends on private rows, so it is only for the
//! owner of the data.

use crate::{DataError, Dataset, Labels, Numbers, Split, Stored};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

impl Dataset {
    /// Returns true if a held-out row equals a training row, in features and labels.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn shares_rows(&self) -> Result<bool, DataError> {
        let Some(test) = &self.test else { return Ok(false) };
        let state = RandomState::new();
        // Stores the hashes of the smaller split.
        let (few, many) = if test.len() < self.train.len() { (test, &self.train) } else { (&self.train, test) };
        let few: HashSet<u64> = few.row_hashes(&state).collect::<Result<_, _>>()?;
        let mut found = many.row_hashes(&state).map(|row| row.map(|row| few.contains(&row)));
        found.find_map(|row| row.map(|row| row.then_some(true)).transpose()).unwrap_or(Ok(false))
    }
}

impl Split {
    /// Returns true if both splits have the same rows, in any order.
    pub(crate) fn has_rows_of(&self, other: &Split) -> Result<bool, DataError> {
        let state = RandomState::new();
        let sorted = |split: &Split| -> Result<Vec<u64>, DataError> {
            let mut rows: Vec<u64> = split.row_hashes(&state).collect::<Result<_, _>>()?;
            rows.sort_unstable();
            Ok(rows)
        };
        Ok(self.rows == other.rows && sorted(self)? == sorted(other)?)
    }

    /// Returns the hash of each row that is not null.
    fn row_hashes<'a>(&'a self, state: &'a RandomState) -> impl Iterator<Item = Result<u64, DataError>> + 'a {
        fn row<'a, T>(values: &'a [T], shape: &[usize], row: usize) -> &'a [T] {
            let width = shape.iter().product::<usize>();
            &values[row * width..][..width]
        }
        let floats = |values: &[f32], hash: &mut dyn Hasher| values.iter().for_each(|x| hash.write_u32(x.to_bits()));
        let integers = |values: &[i64], hash: &mut dyn Hasher| values.iter().for_each(|x| hash.write_i64(*x));
        let (mut bytes, mut read) = (Vec::new(), Vec::new());
        let hash = move |index: usize| {
            let mut hash = state.build_hasher();
            let mut of_file = |stored: &Stored, shape: &[usize], hash: &mut dyn Hasher| -> Result<(), DataError> {
                if stored.is_integer() {
                    let mut row: Vec<i64> = vec![0; shape.iter().product()];
                    stored.integers(index, &mut row, &mut bytes)?;
                    integers(&row, hash);
                } else {
                    read.resize(shape.iter().product(), 0.0);
                    stored.floats(index, &mut read, &mut bytes)?;
                    floats(&read, hash);
                }
                Ok(())
            };
            for features in &self.features {
                match &features.values {
                    Numbers::F32(values) => floats(row(values, &features.shape, index), &mut hash),
                    Numbers::I64(values) => integers(row(values, &features.shape, index), &mut hash),
                    Numbers::Stored(stored) => of_file(stored, &features.shape, &mut hash)?,
                }
            }
            match &self.labels {
                Labels::Classes { shape, values } => integers(row(values, shape, index), &mut hash),
                Labels::Stored { shape, values } => of_file(values, shape, &mut hash)?,
                Labels::Values { shape, values } => floats(row(values, shape, index), &mut hash),
                Labels::None => {}
            }
            Ok(hash.finish())
        };
        (0..self.rows).filter(|index| !self.is_null(*index)).map(hash)
    }
}
