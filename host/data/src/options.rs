//! Options for reading a data set.

pub(crate) mod check;
mod memory_arrays;

pub use memory_arrays::{MemoryArray, MemoryArrays, MemorySplit, MemoryValues};

use super::numbers::{Room, constant};
use super::{DataError, KnownNames};
use damper_onnx::DType;
use std::path::PathBuf;

/// Bytes of an array that needs no file while shards are read.
const SMALL: u64 = 1 << 20;

/// Options for reading a data set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DataOptions {
    /// The kind of the labels; the loss decides.
    pub labels: LabelKind,
    /// The model's data inputs. Samples are reshaped to them; empty: the samples keep the shape of the file.
    pub inputs: Vec<InputShape>,
    /// The treatment of a row whose numbers are not finite or whose label is out of range.
    pub on_bad_row: OnBadRow,
    /// Public means and standard deviations: every feature becomes `(x − mean) / std`, after the scaling of bytes.
    pub normalize: Option<Normalize>,
    /// The axis of the channels of arrays.
    pub layout: ChannelLayout,
    /// `images` and `parquet`: how images of other sizes than the model's are scaled; refused if not given.
    pub resize: Option<Resize>,
    /// Keeps bytes as 0 … 255 instead of scaling them to [0, 1].
    pub raw_bytes: bool,
    /// The source of the test split, if not the data's own files.
    pub test: Option<TestSource>,
    /// Seed of the rows that [`TestSource::Fraction`] holds out.
    pub split_seed: u64,
    /// Holds out the same fraction of each class. The class of every row is then taken to be public.
    pub stratify: bool,
    /// Uses the first samples of the training split only.
    pub train_size: Option<usize>,
    /// `csv`, `parquet` and `text`: the column of the label, by name or counted from 0. If not given, the last one of `csv`, and
    /// `label`, `class` or `target` of `text`; `parquet` as either.
    pub label_column: Option<String>,
    /// `csv` and `text`: whether the first line names the columns. If not given, it does in `text`, and in `csv` if none of its
    /// fields is a number, a word for a missing value, or in a list of [`Self::categories`] or [`Self::classes`]; a line of both is an error.
    pub header: Option<bool>,
    /// `csv` and `text`: what separates fields; if not given, commas, and tabs in a `.tsv` file of `text`.
    pub delimiter: Option<u8>,
    /// Names of the classes, in the order of the model's: public. If not given, labels are numbers, and folders of images are classes in
    /// the order of their names.
    pub classes: Option<Vec<String>>,
    /// Names of columns and classes that the data must have: those of the model, of the run that is resumed, of a federation's plan. If
    /// not given, the training split decides.
    pub names: Option<KnownNames>,
    /// `csv` and `parquet`: columns of categories, and all their values, public. They become one number for each value, 0 or 1; for
    /// inputs of integers, the value's place.
    pub categories: Vec<(String, Vec<String>)>,
    /// Columns of `csv` and `parquet`, and the public mean and standard deviation by which each is scaled. The label's column is one of
    /// them if labels are numbers; of kinds without columns it is called `labels`.
    pub scale: Vec<(String, f64, f64)>,
    /// Keeps floats unrounded until [`Batch::scaled_by`](super::Batch::scaled_by) scales them by constants that the run releases.
    pub unrounded: bool,
    /// `npz`: names of the arrays of features and labels, if not `x` and `y`. `NAME_train` and `NAME_test` are looked
    /// for first.
    pub arrays: Option<(String, String)>,
    /// `npy`: the file of the labels.
    pub labels_file: Option<PathBuf>,
    /// `npy`: the file of the labels of [`TestSource::Spec`].
    pub test_labels_file: Option<PathBuf>,
    /// `memory`: arrays of the program that calls; they are read once.
    pub memory: Option<MemoryArrays>,
    /// `text`: how it becomes numbers.
    pub text: TextOptions,
    /// Bytes of each array of samples that are held in memory; more are kept in a file and read for each draw. No limit if not given.
    pub data_memory: Option<u64>,
    /// The folder of such files, which have no name there; that of the system for temporary files if not given.
    pub cache: Option<PathBuf>,
    /// `images` and `parquet`: a folder in which decoded images stay for later runs. As secret as the data.
    pub image_cache: Option<PathBuf>,
}

impl DataOptions {
    /// The columns that settings name, but the label's: the setting, and the name or number.
    pub(super) fn columns(&self) -> Vec<(&'static str, &str)> {
        let scaled = self.scale.iter().map(|(wanted, ..)| ("scale", wanted.as_str()));
        scaled.chain(self.categories.iter().map(|(wanted, _)| ("categories", wanted.as_str()))).collect()
    }

    /// The same, for a reader that keeps a shard of the rows alone: all rows go to the file, but for those of small arrays. After that
    /// [`Split::load_rows`](super::Split::load_rows) takes the shard into memory.
    #[must_use]
    pub fn of_shard(self) -> Self {
        let memory = self.data_memory.unwrap_or(u64::MAX).min(SMALL);
        Self { data_memory: Some(memory), ..self }
    }

    pub(super) fn room(&self) -> Room {
        Room::new(self.data_memory, self.cache.as_deref())
    }
}

/// Constants, public or released: one mean and standard deviation for all values, or one each for every channel or column.
#[derive(Clone, PartialEq, Debug)]
pub struct Normalize {
    /// The means.
    pub means: Vec<f64>,
    /// The standard deviations, as many.
    pub stds: Vec<f64>,
}

impl From<(f64, f64)> for Normalize {
    fn from((mean, std): (f64, f64)) -> Self {
        Self { means: vec![mean], stds: vec![std] }
    }
}

/// As [`FromStr`](std::str::FromStr) takes it, bit for bit.
impl std::fmt::Display for Normalize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let between = if self.means.len() == 1 { "," } else { ":" };
        write!(f, "{}{between}{}", list(&self.means), list(&self.stds))
    }
}

impl std::str::FromStr for Normalize {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        let wrong = || DataError::File(format!("'{text}': give MEAN,STD, or MEAN,MEAN,...:STD,STD,..."));
        let list = |text: &str| {
            let numbers = text.split(',').map(str::trim);
            // What is a number and is refused has a message of its own.
            let number = |text: &str| if text.parse::<f64>().is_ok() { constant(text) } else { Err(wrong()) };
            numbers.map(number).collect::<Result<Vec<f64>, _>>()
        };
        let (means, stds) = text.split_once(':').or_else(|| text.split_once(',')).ok_or_else(wrong)?;
        let (means, stds) = (list(means)?, list(stds)?);
        if means.len() == stds.len() { Ok(Self { means, stds }) } else { Err(wrong()) }
    }
}

/// The axis of the channels of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ChannelLayout {
    /// On the first axis of a sample, `[C, H, W]`.
    #[default]
    Nchw,
    /// On the last axis, `[H, W, C]`; they are moved to the front.
    Nhwc,
}

impl std::str::FromStr for ChannelLayout {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "nchw" => Ok(ChannelLayout::Nchw),
            "nhwc" => Ok(ChannelLayout::Nhwc),
            _ => Err(DataError::File(format!("'{text}': use nchw or nhwc"))),
        }
    }
}

/// The scaling of an image to the model's size. Pixels are averaged with bilinear weights, as torchvision's `Resize` does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resize {
    /// Its middle, cut to the model's aspect ratio, is scaled.
    Crop,
    /// All of it is scaled, height and width each on its own.
    Stretch,
}

impl std::str::FromStr for Resize {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "crop" => Ok(Resize::Crop),
            "stretch" => Ok(Resize::Stretch),
            _ => Err(DataError::File(format!("'{text}': use crop or stretch"))),
        }
    }
}

/// The kind of the labels of a data set.
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
    /// Numbers from 0 to 1, float `[N, *shape]`, or −100 for "ignore this one".
    Chances {
        /// As of [`LabelKind::Values`].
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
    /// The type of its values: [`DType::I64`], or floats.
    pub dtype: DType,
    /// Of an input that looks up rows of a table: their number, below which each of its numbers must be.
    pub rows: Option<usize>,
}

/// The treatment of a bad row.
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

/// The source of the test split.
#[derive(Clone, PartialEq, Debug)]
pub enum TestSource {
    /// This part of the rows, chosen at random by [`DataOptions::split_seed`] and the rows' places.
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

/// Options for reading `text`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// The tokenizer's file, `tokenizer.json`. Without it there is no text.
    pub tokenizer: Option<PathBuf>,
    /// The column of the text, by name or counted from 0; if not given, `text`, `sentence` or `content`.
    pub text_column: Option<String>,
    /// Tokens of a text that are kept at most, special ones included; the model's sequence length if not given.
    pub max_length: Option<usize>,
    /// The kind of the labels.
    pub task: TextTask,
}

/// The task on a text.
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

/// The advice on a row that may be left out. Not on one whose label or type is wrong: those are faults of the whole file.
pub(super) const DROP: &str = ", or use `on_bad_row` drop";
