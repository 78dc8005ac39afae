//! How to read a data set.

use super::error::DataError;
use damper_onnx::DType;
use std::path::PathBuf;

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

/// What to do with a bad row.
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
            _ => Err(DataError::File(format!("'{text}': use error or drop"))),
        }
    }
}

/// Where the test split comes from.
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
            _ => Err(DataError::File(format!("'{text}': give a fraction between 0 and 1, or KIND:PATH"))),
        }
    }
}

/// How `text` is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// The tokenizer's file, `tokenizer.json`. Without it there is no text.
    pub tokenizer: Option<PathBuf>,
    /// The column of the text, by name or counted from 0; if not given, `text`, `sentence` or `content`.
    pub text_column: Option<String>,
    /// Tokens of a text that are kept at most, special ones included; the model's sequence length if not given.
    pub max_length: Option<usize>,
    /// What the labels are.
    pub task: TextTask,
}

/// What is learned of a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TextTask {
    /// The number in its label column, `[N]`.
    #[default]
    Classify,
    /// Each token's successor, `[N, S]`; −100 where there is none.
    LanguageModel,
}

impl std::str::FromStr for TextTask {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "classify" => Ok(TextTask::Classify),
            "language-model" => Ok(TextTask::LanguageModel),
            _ => Err(DataError::File(format!("'{text}': use classify or language-model"))),
        }
    }
}
