//! A data set: rows in memory, or beyond a limit in a file.

use super::held_out::held_out;
use super::stored::StoredKind;
use super::{DataError, DataNames, Stored};
use std::ops::Range;

/// The label of a class or token that does not count.
pub(super) const IGNORED: i64 = -100;

/// Samples to train on, and samples to test on.
#[derive(Clone, PartialEq, Debug)]
pub struct Dataset {
    /// The training split.
    pub train: Split,
    /// The held-out split, where there is one.
    pub test: Option<Split>,
    /// The meaning of one sample, in words that fit its kind.
    pub sample: &'static str,
    /// The names of columns and classes, which are public.
    pub names: DataNames,
    /// Public notes on the files, a line each: whether a first line names the columns, and columns that are matched by place, or left out.
    pub notes: Vec<String>,
}

/// N samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    pub(super) rows: usize,
    pub(super) features: Vec<Features>,
    pub(super) labels: Labels,
    /// One flag a row, or none at all where no row is null.
    pub(super) null: Vec<bool>,
    /// The rows that are held, if not all are. The others cannot be read.
    pub(super) held: Option<Range<usize>>,
    /// For each input, whether its values were bytes.
    pub(super) are_bytes: Vec<bool>,
    /// The public mean and standard deviation by which labels are scaled.
    pub(super) label_scale: Option<(f64, f64)>,
}

/// The values of one model input for all samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    /// Extents of one sample.
    pub shape: Vec<usize>,
    /// Row-major `[N, *shape]`.
    pub values: Numbers,
}

/// Numbers as a model input takes them.
#[derive(Clone, PartialEq, Debug)]
pub enum Numbers {
    /// Of a float input.
    F32(Vec<f32>),
    /// Of an integer input: tokens, masks, categories.
    I64(Vec<i64>),
    /// Of either, in a file: rows that do not fit into memory.
    Stored(Stored),
}

/// The labels of all samples.
#[derive(Clone, PartialEq, Debug)]
pub enum Labels {
    /// Class numbers, row-major `[N, *shape]`; `shape` is `[]` or `[S]`.
    Classes {
        /// Extents of one sample's labels.
        shape: Vec<usize>,
        /// The class numbers.
        values: Vec<i64>,
    },
    /// Numbers, row-major `[N, *shape]`.
    Values {
        /// Extents of one sample's labels.
        shape: Vec<usize>,
        /// The numbers.
        values: Vec<f32>,
    },
    /// Labels of several numbers each, classes or others, that do not fit into memory.
    Stored {
        /// Extents of one sample's labels.
        shape: Vec<usize>,
        /// Class numbers are integers.
        values: Stored,
    },
    /// There are none.
    None,
}

impl Labels {
    /// Returns true if each sample has several class numbers.
    pub fn are_several_classes(&self) -> bool {
        match self {
            Labels::Classes { shape, .. } => !shape.is_empty(),
            Labels::Stored { values, .. } => values.is_integer(),
            Labels::Values { .. } | Labels::None => false,
        }
    }
}

impl Numbers {
    /// Returns true if they are of an integer input.
    pub fn are_integers(&self) -> bool {
        match self {
            Numbers::F32(_) => false,
            Numbers::I64(_) => true,
            Numbers::Stored(stored) => stored.is_integer(),
        }
    }
}

impl Features {
    /// The values of a float input in memory; none of another.
    pub fn floats(&self) -> &[f32] {
        match &self.values {
            Numbers::F32(values) => values,
            Numbers::I64(_) | Numbers::Stored(_) => &[],
        }
    }

    /// The values of an integer input in memory; none of another.
    pub fn integers(&self) -> &[i64] {
        match &self.values {
            Numbers::I64(values) => values,
            Numbers::F32(_) | Numbers::Stored(_) => &[],
        }
    }
}

impl Split {
    /// The public number of samples N, null samples included.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there is no sample at all; a loaded split always has one.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// One entry a model input, in the model's order.
    pub fn features(&self) -> &[Features] {
        &self.features
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The public mean and standard deviation by which the labels are scaled, if they are.
    pub fn label_scale(&self) -> Option<(f64, f64)> {
        self.label_scale
    }

    /// The values of sample `index` for input `input`, as the data has them: not rounded to 32 bits, if they are kept so. `to` has room for
    /// one sample. Returns false if they are not.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    ///
    /// # Panics
    ///
    /// There is no such input or sample.
    pub fn unrounded(&self, input: usize, index: usize, to: &mut [f64]) -> Result<bool, DataError> {
        match &self.features[input].values {
            Numbers::Stored(stored) => stored.wide(self.place(index), to),
            Numbers::F32(_) | Numbers::I64(_) => Ok(false),
        }
    }

    /// Returns true if sample `index` is a null sample: a dropped row, which contributes nothing. Private, as the data is.
    pub fn is_null(&self, index: usize) -> bool {
        self.null.get(self.place(index)).copied().unwrap_or(false)
    }

    /// The rows that the split holds, if not all.
    pub fn held(&self) -> Option<Range<usize>> {
        self.held.clone()
    }

    /// Drops all rows but these from memory. Rows keep their numbers and N stays; what a batch reads must be among the rows that are held.
    pub fn keep_rows(&mut self, rows: Range<usize>) {
        let kept = self.select(|row| rows.contains(&row));
        *self = Self { rows: self.rows, held: Some(rows), ..kept };
    }

    /// Moves the rows from files into memory: those of each array that has at most `limit` bytes of them.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn load_rows(&mut self, limit: u64) -> Result<(), DataError> {
        let held = self.held.as_ref().map_or(self.rows, |held| held.len());
        let fits = |stored: &Stored| stored.bytes_in_file(held).is_some_and(|bytes| bytes <= limit);
        let labels = match &self.labels {
            Labels::Stored { shape, values } if fits(values) => Some((shape.clone(), values.clone())),
            _ => None,
        };
        for index in 0..self.features.len() {
            if let Numbers::Stored(stored) = &self.features[index].values
                && fits(stored)
            {
                self.features[index].values = self.loaded(stored, held)?;
            }
        }
        if let Some((shape, values)) = labels {
            self.labels = match self.loaded(&values, held)? {
                Numbers::I64(values) => Labels::Classes { shape, values },
                Numbers::F32(values) => Labels::Values { shape, values },
                Numbers::Stored(values) => Labels::Stored { shape, values },
            };
        }
        Ok(())
    }

    /// The `held` rows of `stored` in memory. Bytes stay bytes, and floats that are still to be rounded keep their bits.
    fn loaded(&self, stored: &Stored, held: usize) -> Result<Numbers, DataError> {
        let mut bytes = Vec::new();
        let rows = (0..held).filter(|row| !self.null.get(*row).copied().unwrap_or(false));
        Ok(match stored.kind {
            StoredKind::F32 if stored.scaling.is_none() => {
                let mut values = vec![0.0; held * stored.width];
                for row in rows {
                    stored.floats(row, &mut values[row * stored.width..][..stored.width], &mut bytes)?;
                }
                Numbers::F32(values)
            }
            StoredKind::I64 => {
                let mut values = vec![0; held * stored.width];
                for row in rows {
                    stored.integers(row, &mut values[row * stored.width..][..stored.width], &mut bytes)?;
                }
                Numbers::I64(values)
            }
            _ => Numbers::Stored(stored.loaded(held)?),
        })
    }

    /// The place of row `index` among the rows that are held.
    ///
    /// # Panics
    ///
    /// It lies before them.
    pub(super) fn place(&self, index: usize) -> usize {
        self.held.as_ref().map_or(index, |held| index.checked_sub(held.start).expect("a row that is not held"))
    }

    /// Gives all that the split holds, with its shapes, to `take`: for a digest that tells data sets apart.
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

    /// Rows held out by the rule of [`TestSource::Fraction`](super::TestSource::Fraction), and the others first; `None`
    /// where either would be empty.
    pub fn hold_out(&self, fraction: f64, seed: u64) -> Option<(Split, Split)> {
        self.split_by(&held_out(self.rows, fraction, seed, None))
    }

    /// [`hold_out`](Self::hold_out) with the same part of each class, which is taken to be public.
    pub(super) fn hold_out_of_classes(&self, fraction: f64, seed: u64) -> Option<(Split, Split)> {
        match &self.labels {
            Labels::Classes { values, .. } if values.len() == self.rows => {
                self.split_by(&held_out(self.rows, fraction, seed, Some(values)))
            }
            _ => None,
        }
    }

    /// The class of all rows, if they have one class alone. Private, as the data is.
    pub fn only_class(&self) -> Option<i64> {
        let Labels::Classes { values, .. } = &self.labels else { return None };
        let width = (values.len() / self.rows.max(1)).max(1);
        let mut all = values.chunks(width).enumerate().filter(|(row, _)| !self.is_null(*row));
        let mut all = all.by_ref().flat_map(|(_, values)| values).filter(|class| **class != IGNORED);
        let first = *all.next()?;
        all.all(|class| *class == first).then_some(first)
    }

    pub(super) fn has_one_class_each(&self) -> bool {
        matches!(&self.labels, Labels::Classes { values, .. } if values.len() == self.rows)
    }

    fn split_by(&self, held_out: &[bool]) -> Option<(Split, Split)> {
        let (train, test) = (self.select(|row| !held_out[row]), self.select(|row| held_out[row]));
        (!train.is_empty() && !test.is_empty()).then_some((train, test))
    }

    /// The same samples, all in memory.
    ///
    /// # Errors
    ///
    /// Rows in a file cannot be read.
    pub fn in_memory(&self) -> Result<Split, DataError> {
        let all = |stored: &Stored, shape: &[usize]| -> Result<Numbers, DataError> {
            let (width, mut bytes) = (shape.iter().product::<usize>(), Vec::new());
            let rows = (0..self.rows).filter(|row| !self.is_null(*row));
            Ok(if stored.is_integer() {
                let mut values = vec![0; self.rows * width];
                for row in rows {
                    stored.integers(row, &mut values[row * width..][..width], &mut bytes)?;
                }
                Numbers::I64(values)
            } else {
                let mut values = vec![0.0; self.rows * width];
                for row in rows {
                    stored.floats(row, &mut values[row * width..][..width], &mut bytes)?;
                }
                Numbers::F32(values)
            })
        };
        let mut split = self.clone();
        for features in &mut split.features {
            if let Numbers::Stored(stored) = &features.values {
                features.values = all(stored, &features.shape)?;
            }
        }
        if let Labels::Stored { shape, values } = &self.labels {
            let shape = shape.clone();
            split.labels = match all(values, &shape)? {
                Numbers::I64(values) => Labels::Classes { shape, values },
                Numbers::F32(values) => Labels::Values { shape, values },
                Numbers::Stored(_) => unreachable!("all of them are in memory"),
            };
        }
        Ok(split)
    }

    pub(super) fn first(&self, size: usize) -> Split {
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

    /// Training and test samples must fit the same model.
    pub(super) fn check_same_shapes(&self, test: &Split, spec: &str) -> Result<(), DataError> {
        let shapes = |split: &Split| -> Vec<Vec<usize>> {
            let label = match &split.labels {
                Labels::Classes { shape, .. } | Labels::Values { shape, .. } | Labels::Stored { shape, .. } => {
                    shape.clone()
                }
                Labels::None => Vec::new(),
            };
            split.features.iter().map(|features| features.shape.clone()).chain([label]).collect()
        };
        if shapes(self) == shapes(test) {
            return Ok(());
        }
        Err(DataError::File(format!(
            "{spec}: samples have the shapes {:?} for training and {:?} for testing (features, then labels): use data of \
             one shape",
            shapes(self),
            shapes(test)
        )))
    }
}
