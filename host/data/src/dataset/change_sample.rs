//! Changes of one sample, which create neighbouring data sets for audits. The split must be in memory
//! ([`Split::in_memory`]).

use crate::{Features, Labels, Numbers, Split};

/// The values of one sample.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// One entry per model input.
    pub features: Vec<Numbers>,
    /// Its labels.
    pub labels: Labels,
}

impl Split {
    /// Creates a data set of `rows` synthetic samples.
    pub fn made(rows: usize, features: Vec<Features>, labels: Labels) -> Self {
        Self { rows, features, labels, null: vec![], held: None, are_bytes: vec![], label_scale: None }
    }

    /// Replaces the features by arrays of the available rows.
    #[must_use]
    pub fn with_features(&self, features: Vec<Features>) -> Self {
        Self {
            rows: self.rows,
            features,
            labels: self.labels.clone(),
            null: self.null.clone(),
            held: self.held.clone(),
            are_bytes: vec![],
            label_scale: self.label_scale,
        }
    }

    /// Copies sample `index`.
    ///
    /// # Panics
    ///
    /// The split has no such sample, or samples are in a file.
    #[must_use]
    pub fn sample(&self, index: usize) -> Sample {
        assert!(index < self.rows, "the sample is one of the split's");
        Sample {
            features: self
                .features
                .iter()
                .map(|features| match &features.values {
                    Numbers::F32(values) => Numbers::F32(row(values, self.rows, index).to_vec()),
                    Numbers::I64(values) => Numbers::I64(row(values, self.rows, index).to_vec()),
                    Numbers::Stored(_) => panic!("{MEMORY}"),
                })
                .collect(),
            labels: match &self.labels {
                Labels::Classes { shape, values } => {
                    Labels::Classes { shape: shape.clone(), values: row(values, self.rows, index).to_vec() }
                }
                Labels::Values { shape, values } => {
                    Labels::Values { shape: shape.clone(), values: row(values, self.rows, index).to_vec() }
                }
                Labels::Stored { .. } => panic!("{MEMORY}"),
                Labels::None => Labels::None,
            },
        }
    }

    /// Replaces sample `index` by `sample`.
    ///
    /// # Panics
    ///
    /// The split has no such sample, the new sample has another shape, or samples are in a file.
    pub fn replace(&mut self, index: usize, sample: &Sample) {
        assert!(index < self.rows, "the sample is one of the split's");
        let rows = self.rows;
        for (features, new) in self.features.iter_mut().zip(&sample.features) {
            match (&mut features.values, new) {
                (Numbers::F32(values), Numbers::F32(new)) => row_mut(values, rows, index).copy_from_slice(new),
                (Numbers::I64(values), Numbers::I64(new)) => row_mut(values, rows, index).copy_from_slice(new),
                _ => panic!("{KIND}"),
            }
        }
        match (&mut self.labels, &sample.labels) {
            (Labels::Classes { values, .. }, Labels::Classes { values: new, .. }) => {
                row_mut(values, rows, index).copy_from_slice(new);
            }
            (Labels::Values { values, .. }, Labels::Values { values: new, .. }) => {
                row_mut(values, rows, index).copy_from_slice(new);
            }
            (Labels::None, Labels::None) => {}
            _ => panic!("{KIND}"),
        }
    }

    /// Appends `sample`.
    ///
    /// # Panics
    ///
    /// The sample has another shape, or samples are in a file.
    pub fn push(&mut self, sample: &Sample) {
        for (features, new) in self.features.iter_mut().zip(&sample.features) {
            match (&mut features.values, new) {
                (Numbers::F32(values), Numbers::F32(new)) => values.extend_from_slice(new),
                (Numbers::I64(values), Numbers::I64(new)) => values.extend_from_slice(new),
                _ => panic!("{KIND}"),
            }
        }
        match (&mut self.labels, &sample.labels) {
            (Labels::Classes { values, .. }, Labels::Classes { values: new, .. }) => values.extend_from_slice(new),
            (Labels::Values { values, .. }, Labels::Values { values: new, .. }) => values.extend_from_slice(new),
            (Labels::None, Labels::None) => {}
            _ => panic!("{KIND}"),
        }
        if !self.null.is_empty() {
            self.null.push(false);
        }
        self.rows += 1;
    }

    /// Removes the last sample.
    ///
    /// # Panics
    ///
    /// Samples are in a file.
    pub fn pop(&mut self) {
        let Some(left) = self.rows.checked_sub(1) else { return };
        for features in &mut self.features {
            match &mut features.values {
                Numbers::F32(values) => values.truncate(values.len() / self.rows * left),
                Numbers::I64(values) => values.truncate(values.len() / self.rows * left),
                Numbers::Stored(_) => panic!("{MEMORY}"),
            }
        }
        match &mut self.labels {
            Labels::Classes { values, .. } => values.truncate(values.len() / self.rows * left),
            Labels::Values { values, .. } => values.truncate(values.len() / self.rows * left),
            Labels::Stored { .. } => panic!("{MEMORY}"),
            Labels::None => {}
        }
        self.null.truncate(left);
        self.rows = left;
    }

    /// Makes sample `index` a null sample, which contributes nothing, or restores it.
    ///
    /// # Panics
    ///
    /// The split has no such sample, or samples are in a file.
    pub fn set_null(&mut self, index: usize, null: bool) {
        assert!(index < self.rows, "the sample is one of the split's");
        if self.null.is_empty() {
            self.null = vec![false; self.rows];
        }
        self.null[index] = null;
    }
}

const MEMORY: &str = "samples that are changed are in memory";
const KIND: &str = "a sample has its split's kind of numbers";

fn row<T>(values: &[T], rows: usize, index: usize) -> &[T] {
    let width = values.len() / rows;
    &values[index * width..][..width]
}

fn row_mut<T>(values: &mut [T], rows: usize, index: usize) -> &mut [T] {
    let width = values.len() / rows;
    &mut values[index * width..][..width]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split() -> Split {
        Split {
            rows: 3,
            features: vec![
                Features { shape: vec![2], values: Numbers::F32(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) },
                Features { shape: vec![], values: Numbers::I64(vec![7, 8, 9]) },
            ],
            labels: Labels::Classes { shape: vec![], values: vec![0, 1, 2] },
            null: vec![],
            held: None,
            are_bytes: vec![],
            label_scale: None,
        }
    }

    // A change followed by its inverse restores the data.
    #[test]
    fn edits_are_reversible() {
        let mut split = split();
        let before = split.clone();
        let (first, last) = (split.sample(0), split.sample(2));
        split.replace(0, &last);
        assert_eq!((split.sample(0), split.sample(1)), (last, before.sample(1)));
        split.replace(0, &first);
        assert_eq!(split, before);
        split.push(&first);
        assert_eq!((split.len(), split.sample(3)), (4, first));
        split.set_null(3, true);
        assert!(split.is_null(3) && !split.is_null(0));
        split.pop();
        split.set_null(1, true);
        split.set_null(1, false);
        assert!((0..3).all(|index| !split.is_null(index) && split.sample(index) == before.sample(index)));
        assert_eq!((split.len(), split.features()), (3, before.features()));
    }
}
