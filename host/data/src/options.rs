//! Options for reading a data set.

pub(crate) mod check;
mod memory_arrays;

pub use memory_arrays::{MemoryArray, MemoryArrays, MemorySplit, MemoryValues};

use super::numbers::{Room, constant};
use super::{DataError, KnownNames};
use damper_onnx::DType;
use std::path::{Path, PathBuf};

/// Maximum bytes of an array that stays in memory while shards are read.
const SMALL: u64 = 1 << 20;

/// Options for reading a data set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DataOptions {
    /// The kind of the labels, which the loss determines.
    pub labels: LabelKind,
    /// The model's data inputs. Samples are reshaped to them. If empty, samples keep the shape of the file.
    pub inputs: Vec<InputShape>,
    /// The treatment of a row with non-finite values or with a label out of range.
    pub on_bad_row: OnBadRow,
    /// Public means and standard deviations. Every feature becomes `(x − mean) / std`, after the scaling of bytes.
    pub normalize: Option<Normalize>,
    /// The axis of the channels of arrays.
    pub layout: ChannelLayout,
    /// `images` and `parquet`: the scaling of images that do not have the model's size. Such images are errors if it is
    /// not given.
    pub resize: Option<Resize>,
    /// Keeps bytes in 0 … 255 instead of scaling them to [0, 1].
    pub raw_bytes: bool,
    /// The source of the test split, if not the data's own files.
    pub test: Option<TestSource>,
    /// Seed of the choice of rows that [`TestSource::Fraction`] holds out.
    pub split_seed: u64,
    /// Holds out the same fraction of each class. The class of every row must then be public.
    pub stratify: bool,
    /// Uses only the first samples of the training split.
    pub train_size: Option<usize>,
    /// `csv`, `parquet` and `text`: the label column, by name or counted from 0. If not given, it is the last column of
    /// `csv`, and `label`, `class` or `target` of `text`. `parquet` uses these names, otherwise the last column.
    pub label_column: Option<String>,
    /// `csv` and `text`: true if the first line names the columns. If not given, it is true for `text`. For `csv` it is
    /// true if no field is a number, a word for a missing value, or in a list of [`Self::categories`] or
    /// [`Self::classes`]. A line with both is an error.
    pub header: Option<bool>,
    /// `csv` and `text`: the delimiter of fields. If not given, commas, and tabs in a `.tsv` file of `text`.
    pub delimiter: Option<u8>,
    /// Public names of the classes, in the order of the model's classes. If not given, labels are numbers, and folders
    /// of images are classes in the order of their names.
    pub classes: Option<Vec<String>>,
    /// Declared number of classes, if they have no names.
    pub class_count: Option<usize>,
    /// Required names of columns and classes: those of the model, of the resumed run, or of a federation's plan. If not
    /// given, the training split determines them.
    pub names: Option<KnownNames>,
    /// `csv` and `parquet`: columns of categories with all their values, which are public. Each value becomes one
    /// feature, 0 or 1. For integer inputs, the column becomes the index of the value.
    pub categories: Vec<(String, Vec<String>)>,
    /// Columns of `csv` and `parquet`, with the public mean and standard deviation that scale each. They may include
    /// the label column if labels are numbers. In kinds without columns it is called `labels`.
    pub scale: Vec<(String, f64, f64)>,
    /// Leaves labels in their own unit, which is that of the model's output. [`Self::scale`] may still name them.
    pub unscaled_labels: bool,
    /// Keeps floats unrounded until [`Batch::scaled_by`](super::Batch::scaled_by) scales them by released constants.
    pub unrounded: bool,
    /// `npz`: names of the arrays of features and labels, if not `x` and `y`. `NAME_train` and `NAME_test` are tried
    /// first.
    pub arrays: Option<(String, String)>,
    /// `npy`: the label file.
    pub labels_file: Option<PathBuf>,
    /// `npy`: the label file of [`TestSource::Spec`].
    pub test_labels_file: Option<PathBuf>,
    /// `memory`: arrays of the calling program, which are read once.
    pub memory: Option<MemoryArrays>,
    /// `text`: the conversion to numbers.
    pub text: TextOptions,
    /// Maximum bytes of each array of samples in memory. Larger arrays are stored in a file and read for each draw. No
    /// limit if not given.
    pub data_memory: Option<u64>,
    /// The folder of such files, which are unnamed. The system's folder for temporary files if not given.
    pub cache: Option<PathBuf>,
    /// `images` and `parquet`: a folder that keeps decoded images for later runs. It is as secret as the data.
    pub image_cache: Option<PathBuf>,
}

impl DataOptions {
    /// Returns the columns that settings name, except the label: the setting, and the name or number.
    pub(super) fn columns(&self) -> Vec<(&'static str, &str)> {
        let scaled = self.scale.iter().map(|(wanted, ..)| ("scale", wanted.as_str()));
        scaled.chain(self.categories.iter().map(|(wanted, _)| ("categories", wanted.as_str()))).collect()
    }

    /// Returns options for a reader that keeps only a shard of the rows. All rows go to the file, except those of small
    /// arrays. Afterwards [`Split::load_rows`](super::Split::load_rows) loads the shard into memory.
    #[must_use]
    pub fn of_shard(self) -> Self {
        let memory = self.data_memory.unwrap_or(u64::MAX).min(SMALL);
        Self { data_memory: Some(memory), ..self }
    }

    pub(super) fn room(&self) -> Room {
        Room::new(self.data_memory, self.cache.as_deref())
    }
}

/// Constants, public or released: one mean and standard deviation for all values, or one pair for every channel or
/// column.
#[derive(Clone, PartialEq, Debug)]
pub struct Normalize {
    /// The means.
    pub means: Vec<f64>,
    /// The standard deviations, as many as means.
    pub stds: Vec<f64>,
}

impl From<(f64, f64)> for Normalize {
    fn from((mean, std): (f64, f64)) -> Self {
        Self { means: vec![mean], stds: vec![std] }
    }
}

/// Writes the form that [`FromStr`](std::str::FromStr) parses, bit-exactly.
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
            // A number that is rejected has its own message.
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
    /// On the last axis, `[H, W, C]`. They are moved to the front.
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

/// The scaling of an image to the model's size. Pixels are averaged with bilinear weights, as in torchvision's
/// `Resize`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resize {
    /// Crops the centre to the model's aspect ratio, then scales it.
    Crop,
    /// Scales the whole image, with independent factors for height and width.
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
    /// Class numbers, int64 `[N]`, `[N, S]` or with more axes, each in `0 .. classes`, or −100 for an ignored label.
    Classes {
        /// Number of classes, from the model's output. Not checked if not given.
        classes: Option<usize>,
        /// Extents of one sample's labels. If not given, those of the file, at most `[S]`.
        shape: Option<Vec<usize>>,
    },
    /// Numbers, float `[N, *shape]`.
    Values {
        /// The model output's shape without the batch. If not given, the shape of the file.
        shape: Option<Vec<usize>>,
    },
    /// Numbers from 0 to 1, float `[N, *shape]`, or −100 for an ignored label.
    Chances {
        /// As in [`LabelKind::Values`].
        shape: Option<Vec<usize>>,
    },
    /// No labels: the model computes its loss from its inputs alone.
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
    /// For an input that indexes an embedding matrix, its number of rows. Every index must be below it.
    pub rows: Option<usize>,
}

/// The treatment of a bad row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnBadRow {
    /// Return an error that names the row.
    #[default]
    Error,
    /// Turn the row into a null sample, which keeps its index and contributes nothing.
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
    /// This fraction of the rows, chosen at random by [`DataOptions::split_seed`] and the rows' indices.
    Fraction(f64),
    /// Another data set, `KIND:PATH`: its test split if it has a test split, otherwise all of it.
    Spec(String),
}

impl std::str::FromStr for TestSource {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text.parse::<f64>() {
            _ if text.contains(':') => Ok(TestSource::Spec(text.into())),
            Ok(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(TestSource::Fraction(fraction)),
            Err(_) if text.contains(['.', '/', '\\']) || Path::new(text).exists() => Ok(TestSource::Spec(text.into())),
            _ => Err(DataError::File(format!("'{text}': give a fraction between 0 and 1, or KIND:PATH"))),
        }
    }
}

/// The built-in tokenizer: lower-case pieces of English words. Its vocabulary is from a public dictionary.
pub const ENGLISH: &str = "english";

/// The file of the tokenizer [`ENGLISH`].
pub const ENGLISH_FILE: &[u8] = include_bytes!("formats/text/english.json");

// A link to `onnx-models/text/wordpiece.json`, which `cargo package` replaces by the file.
const _: () = assert!(ENGLISH_FILE.len() > 1000, "check out the symbolic links");

/// Options for reading `text`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// The tokenizer file, `tokenizer.json`, or [`ENGLISH`]. Required for `text`.
    pub tokenizer: Option<PathBuf>,
    /// The text column, by name or counted from 0. If not given, `text`, `sentence` or `content`.
    pub text_column: Option<String>,
    /// Maximum number of tokens of a text, including special tokens. The model's sequence length if not given.
    pub max_length: Option<usize>,
    /// The kind of the labels.
    pub task: TextTask,
}

/// The task on a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TextTask {
    /// Predict the number in the label column, `[N]`.
    #[default]
    Classify,
    /// Predict each token's successor, `[N, S]`, or −100 if it has none.
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

/// The advice on a row that may be dropped. Rows with a wrong label or type do not get it, because those are faults of
/// the whole file.
pub(super) const DROP: &str = ", or use `on_bad_row` drop";
