//! A data set, with rows in memory, or in a file above a limit.

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

/// The label of a class or token that is ignored.
pub(crate) const IGNORED: i64 = -100;

/// Training samples and test samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Dataset {
    /// The training split.
    pub train: Split,
    /// The held-out split, if there is one.
    pub test: Option<Split>,
    /// The meaning of one sample, for its format.
    pub sample: &'static str,
    /// The names of columns and classes, which are public.
    pub names: DataNames,
    /// Public notes on the files, one line each. They state if the first line names the columns, and list columns that
    /// are matched by position or left out.
    pub notes: Vec<String>,
}

/// The training split, and the test split if there is one.
pub(crate) type Splits = (Split, Option<Split>);

/// A split of N samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    pub(crate) rows: usize,
    pub(crate) features: Vec<Features>,
    pub(crate) labels: Labels,
    /// One flag per row, or empty if no row is null.
    pub(crate) null: Vec<bool>,
    /// The range of rows in memory, if not all are. Other rows cannot be read.
    pub(crate) held: Option<Range<usize>>,
    /// For each input, true if its values were bytes.
    pub(crate) are_bytes: Vec<bool>,
    /// The public mean and standard deviation of the label scaling.
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

/// Values in the type of a model input.
#[derive(Clone, PartialEq, Debug)]
pub enum Numbers {
    /// Values of a float input.
    F32(Vec<f32>),
    /// Values of an integer input: tokens, masks, categories.
    I64(Vec<i64>),
    /// Values of either type in a file, for rows that do not fit in memory.
    Stored(Stored),
}

/// The labels of all samples.
#[derive(Clone, PartialEq, Debug)]
pub enum Labels {
    /// Class numbers, row-major `[N, *shape]`, with `shape` being `[]` or `[S]`.
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
    /// Labels with several values each, classes or others, that do not fit in memory.
    Stored {
        /// Extents of one sample's labels.
        shape: Vec<usize>,
        /// The values. Integers are class numbers.
        values: Stored,
    },
    /// No labels.
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
    /// Returns true if the values belong to an integer input.
    pub fn are_integers(&self) -> bool {
        match self {
            Numbers::F32(_) => false,
            Numbers::I64(_) => true,
            Numbers::Stored(stored) => stored.is_integer(),
        }
    }
}

impl Features {
    /// Returns the values of a float input in memory. Empty for other inputs.
    pub fn floats(&self) -> &[f32] {
        match &self.values {
            Numbers::F32(values) => values,
            Numbers::I64(_) | Numbers::Stored(_) => &[],
        }
    }

    /// Returns the values of an integer input in memory. Empty for other inputs.
    pub fn integers(&self) -> &[i64] {
        match &self.values {
            Numbers::I64(values) => values,
            Numbers::F32(_) | Numbers::Stored(_) => &[],
        }
    }
}

impl Split {
    /// Returns the public number of samples N, including null samples.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if the split has no samples. A loaded split is not empty.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the features, one entry per model input, in the model's order.
    pub fn features(&self) -> &[Features] {
        &self.features
    }

    /// Returns the labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the public mean and standard deviation of the label scaling, if any.
    pub fn label_scale(&self) -> Option<(f64, f64)> {
        self.label_scale
    }

    /// Writes the values of sample `index` for input `input` to `to`, not rounded to 32 bits. `to` must hold one
    /// sample. Returns false if the split does not store unrounded values.
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

    /// Returns true if sample `index` is a null sample, a dropped row that contributes nothing. The result is as
    /// private as the data.
    pub fn is_null(&self, index: usize) -> bool {
        self.null.get(self.place(index)).copied().unwrap_or(false)
    }

    /// Returns the rows that the split has in memory or in its file.
    pub fn rows_held(&self) -> Range<usize> {
        self.held.clone().unwrap_or(0..self.rows)
    }

    /// Returns these rows, if they are not all rows.
    pub fn held(&self) -> Option<Range<usize>> {
        self.held.clone()
    }

    /// Returns the position of row `index` among the available rows.
    ///
    /// # Panics
    ///
    /// The row precedes them.
    pub(crate) fn place(&self, index: usize) -> usize {
        self.held.as_ref().map_or(index, |held| index.checked_sub(held.start).expect("a row that is not held"))
    }

    /// Returns the class of all rows, if they all have the same class. The result is as private as the data.
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

    /// Checks that training and test samples fit the same model.
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
