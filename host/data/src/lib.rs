//! Data sets: read, checked by their owner before any release, and held as plain arrays.
//!
//! [`load`] is the way in: `KIND:PATH` and [`DataOptions`] to a [`Dataset`]. Kinds, one a file: `idx` (MNIST's
//! files, plain or gzipped), `csv`, `npz`, `text`. [`chunks`] and [`Batch`] then turn the samples drawn for a step into batches
//! of the one physical size of a run.
//!
//! What is private and what is public here:
//!
//! - Preprocessing uses public constants alone: bytes are scaled by 1/255, and [`DataOptions::normalize`] takes a mean
//!   and a standard deviation that the user knows beforehand. Nothing is computed from the samples.
//! - The number of rows N is public. Under [`OnBadRow::Drop`] a bad row keeps its place and becomes a null sample,
//!   which contributes nothing: N, the draw, the split and every other sample are what they were. How many rows were
//!   bad is private, and nothing here reports it.
//! - The held-out rows follow from the rows' positions alone ([`TestSource::Fraction`]).

mod array;
mod assemble;
mod batch;
mod csv;
mod dataset;
mod edit;
mod idx;
mod npz;
mod overlap;
mod text;

pub use batch::{Batch, BatchLabels, Chunk, chunks};
pub use dataset::held_out_rows;
pub use dataset::{Dataset, Features, Labels, Numbers, Split};
pub use edit::Sample;
pub use text::{TextOptions, TextTask};

use damper_onnx::graph::DType;
use std::path::Path;

/// How to read a data set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DataOptions {
    /// What the labels are: the loss decides.
    pub labels: LabelKind,
    /// The model's data inputs. Samples are reshaped to them; empty: the samples keep the shape of the file.
    pub inputs: Vec<InputShape>,
    /// What to do with a row whose numbers are not finite or whose label is out of range.
    pub on_bad_row: OnBadRow,
    /// Public mean and standard deviation: every feature becomes `(x − mean) / std`, after the scaling of bytes.
    pub normalize: Option<(f32, f32)>,
    /// Keeps bytes as 0 … 255 instead of scaling them to [0, 1].
    pub raw_bytes: bool,
    /// Where the test split comes from, if not from the data's own files.
    pub test: Option<TestSource>,
    /// Uses the first samples of the training split only.
    pub train_size: Option<usize>,
    /// `csv` and `text`: the column of the label, by name or counted from 0. If not given, the last one of `csv`, and
    /// `label`, `class` or `target` of `text`.
    pub label_column: Option<String>,
    /// `csv` and `text`: whether the first line names the columns. If not given, it does in `text`, and in `csv` when one
    /// of its fields is not a number.
    pub header: Option<bool>,
    /// `npz`: names of the arrays of features and labels, if not `x` and `y`. `NAME_train` and `NAME_test` are looked
    /// for first.
    pub arrays: Option<(String, String)>,
    /// `text`: how it becomes numbers.
    pub text: TextOptions,
}

/// What the labels of a data set are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelKind {
    /// Class numbers, int64 `[N]`, `[N, S]` or of more axes, each in `0 .. classes`, or −100 for "ignore this one".
    Classes {
        /// Number of classes, from the model's output; not checked if not given.
        classes: Option<usize>,
        /// Extents of one sample's labels; those of the file if not given, at most `[S]`.
        shape: Option<Vec<usize>>,
    },
    /// Numbers, float `[N, *shape]`.
    Values {
        /// The model output's shape without the batch; the shape of the file if not given.
        shape: Option<Vec<usize>>,
    },
    /// The model computes its loss from its inputs alone.
    None,
}

impl Default for LabelKind {
    fn default() -> Self {
        LabelKind::Classes { classes: None, shape: None }
    }
}

/// A data input of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputShape {
    /// The input's name. With several inputs, `npz` looks for arrays of these names.
    pub name: String,
    /// Extents of one sample, without the batch.
    pub shape: Vec<usize>,
    /// What it takes: [`DType::I64`], or floats.
    pub dtype: DType,
    /// Of an input that looks up rows of a table: their number, below which each of its numbers must be.
    pub rows: Option<usize>,
}

/// What to do with a bad row: `--on-bad-row`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnBadRow {
    /// Refuse the data set and name the row.
    #[default]
    Error,
    /// Turn the row into a null sample: it keeps its place and contributes nothing.
    Drop,
}

impl std::str::FromStr for OnBadRow {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "error" => Ok(OnBadRow::Error),
            "drop" => Ok(OnBadRow::Drop),
            _ => Err(DataError(format!("--on-bad-row {text}: use error or drop"))),
        }
    }
}

/// Where the test split comes from: `--test`.
#[derive(Clone, PartialEq, Debug)]
pub enum TestSource {
    /// This part of the rows, spread evenly by position: with `s = ⌈f · 2^32⌉`, row `i` is held out exactly when
    /// `⌊(i + 1) · s / 2^32⌋ > ⌊i · s / 2^32⌋`.
    Fraction(f64),
    /// Another data set, `KIND:PATH`: its test split if it has one, else all of it.
    Spec(String),
}

impl std::str::FromStr for TestSource {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        if text.contains(':') {
            return Ok(TestSource::Spec(text.into()));
        }
        match text.parse::<f64>() {
            Ok(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(TestSource::Fraction(fraction)),
            _ => Err(DataError(format!("--test {text}: give a fraction between 0 and 1, or KIND:PATH"))),
        }
    }
}

/// A data set that cannot be used: one line that names the file, and the row where one is at fault, and says what to
/// do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct DataError(pub String);

/// Kinds of data set, as messages list them.
const KINDS: &str = "idx, csv, npz, text";

/// Loads the data set `KIND:PATH`.
///
/// # Errors
///
/// An unknown kind; a file that is missing, empty, truncated, corrupt, of the wrong format or shape; counts that do not
/// match; samples that do not fit the model's inputs; a bad row under [`OnBadRow::Error`]; a test split that is asked
/// for twice or cannot be made.
pub fn load(spec: &str, options: &DataOptions) -> Result<Dataset, DataError> {
    if let Some((mean, std)) = options.normalize
        && !(mean.is_finite() && std.is_normal() && std > 0.0)
    {
        return Err(DataError(format!(
            "--normalize {mean},{std}: give a finite mean and a standard deviation above 0"
        )));
    }
    let (train, own_test) = read(spec, options)?;
    let own_test_is_absent = own_test.is_none();
    let (train, test) = match &options.test {
        None => (train, own_test),
        Some(TestSource::Fraction(_)) if own_test.is_some() => {
            return Err(DataError(format!(
                "{spec}: has a test split of its own: leave out --test, or give --test KIND:PATH"
            )));
        }
        Some(TestSource::Fraction(fraction)) => {
            let (train, test) = train.hold_out(*fraction).ok_or_else(|| {
                DataError(format!(
                    "{spec}: --test {fraction} of {} rows leaves a split empty: give another fraction",
                    train.len()
                ))
            })?;
            (train, Some(test))
        }
        Some(TestSource::Spec(other)) => {
            let (all, test) = read(other, options)?;
            (train, Some(test.unwrap_or(all)))
        }
    };
    if let Some(test) = &test {
        train.check_same_shapes(test, spec)?;
        let is_file = matches!(&options.test, Some(TestSource::Spec(other)) if is_same_file(spec, other));
        let from_elsewhere = !matches!(options.test, Some(TestSource::Fraction(_)));
        if from_elsewhere && (is_file && own_test_is_absent || train.has_rows_of(test)) {
            return Err(DataError(format!(
                "{spec}: the held-out rows are the training rows; give --test other data, or --test FRACTION to hold some out"
            )));
        }
    }
    let train = match options.train_size {
        None => train,
        Some(size) if size > 0 && size <= train.len() => train.first(size),
        Some(size) => {
            return Err(DataError(format!(
                "{spec}: --train-size {size}: the training split has {} samples: give 1 to {}",
                train.len(),
                train.len()
            )));
        }
    };
    Ok(Dataset { train, test, sample: sample(spec, options) })
}

/// Returns true if both name one file or folder.
fn is_same_file(spec: &str, other: &str) -> bool {
    let path = |spec: &str| spec.split_once(':').and_then(|(_, path)| Path::new(path).canonicalize().ok());
    path(spec).is_some_and(|file| path(other) == Some(file))
}

/// What one sample of `KIND:PATH` is.
fn sample(spec: &str, options: &DataOptions) -> &'static str {
    match (spec.split(':').next(), options.text.task, &options.labels) {
        (Some("idx"), _, LabelKind::None) => "one image, an entry of the IDX file",
        (Some("idx"), ..) => "one image, an entry of the IDX file, with its label",
        (Some("csv"), ..) => "one row of the CSV file, its label included",
        (Some("npz"), _, LabelKind::None) => "one entry of the NPZ file's array along its first axis",
        (Some("npz"), ..) => "one entry of the NPZ file's arrays along their first axis, with its label",
        (_, TextTask::LanguageModel, _) => {
            "one text, a line or row of the text file, as far as the model's length holds it"
        }
        (_, TextTask::Classify, _) => {
            "one text, a row of the text file, as far as the model's length holds it, with its label"
        }
    }
}

fn read(spec: &str, options: &DataOptions) -> Result<(Split, Option<Split>), DataError> {
    let (kind, path) = spec
        .split_once(':')
        .filter(|(_, path)| !path.is_empty())
        .ok_or_else(|| DataError(format!("{spec}: give KIND:PATH, KIND one of {KINDS}")))?;
    let path = Path::new(path);
    match kind {
        "idx" => idx::load(path, options),
        "csv" => csv::load(path, options),
        "npz" => npz::load(path, options),
        "text" => text::load(path, options),
        _ => Err(DataError(format!("{spec}: unknown kind `{kind}`: use one of {KINDS}"))),
    }
}

#[cfg(test)]
mod tests;
