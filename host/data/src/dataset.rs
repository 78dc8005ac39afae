//! A data set: rows in memory, or beyond a limit in a file.

mod change_sample;
mod digest;
mod held_out;
mod scaling;
mod select;
mod shared_rows;
mod stored;

pub use change_sample::Sample;
pub use held_out::held_out_rows;
pub(crate) use scaling::Scaling;
pub use stored::Stored;
pub(crate) use stored::StoredKind;

use crate::{DataError, DataNames};
use std::ops::Range;

/// The label of a class or token that does not count.
pub(crate) const IGNORED: i64 = -100;

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

/// The training split, and the test split if there is one.
pub(crate) type Splits = (Split, Option<Split>);

/// N samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    pub(crate) rows: usize,
    pub(crate) features: Vec<Features>,
    pub(crate) labels: Labels,
    /// One flag a row, or none at all where no row is null.
    pub(crate) null: Vec<bool>,
    /// The rows that are held, if not all are. The others cannot be read.
    pub(crate) held: Option<Range<usize>>,
    /// For each input, whether its values were bytes.
    pub(crate) are_bytes: Vec<bool>,
    /// The public mean and standard deviation by which labels are scaled.
    pub(crate) label_scale: Option<(f64, f64)>,
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

    /// Returns true if the split has no samples. A loaded split has some.
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
    /// The split has no such input or sample.
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

    /// The rows that the split holds.
    pub fn rows_held(&self) -> Range<usize> {
        self.held.clone().unwrap_or(0..self.rows)
    }

    /// The rows that the split holds, if not all.
    pub fn held(&self) -> Option<Range<usize>> {
        self.held.clone()
    }

    /// The place of row `index` among the rows that are held.
    ///
    /// # Panics
    ///
    /// It lies before them.
    pub(crate) fn place(&self, index: usize) -> usize {
        self.held.as_ref().map_or(index, |held| index.checked_sub(held.start).expect("a row that is not held"))
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

    pub(crate) fn has_one_class_each(&self) -> bool {
        matches!(&self.labels, Labels::Classes { values, .. } if values.len() == self.rows)
    }

    /// Training and test samples must fit the same model.
    pub(crate) fn check_same_shapes(&self, test: &Split, spec: &str) -> Result<(), DataError> {
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
