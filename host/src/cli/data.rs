//! Flags of data sets.

use super::model::memory;
use super::{caller, number32, pair};
use clap::{Args, ValueEnum};
use damper_data::{
    DataError, DataOptions, FORMATS, Layout, Normalize, OnBadRow, Resize, TestSource, TextOptions, TextTask, constant,
};
use damper_train::{NormalizePrivate, ReleaseNonFinite};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct DataArgs {
    #[arg(long, value_name = "KIND:PATH", help = samples())]
    pub data: String,
    /// Held-out samples: a fraction of the rows between 0 and 1, chosen at random, or another KIND:PATH [default: the data's own]
    #[arg(long, value_name = "FRACTION|KIND:PATH")]
    pub test: Option<TestSource>,
    /// With --test FRACTION: which rows are held out, a public number. It follows from their places in the file and this alone
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub split_seed: u64,
    /// With --test FRACTION: holds out the same fraction of each class. Sound only if the class of every row is public: epsilon then
    /// protects the rest of a row
    #[arg(long, value_name = "public-classes")]
    stratify: Option<Stratify>,
    /// Public mean and standard deviation: every feature becomes (x - MEAN) / STD; bytes are divided by 255 first. One each for every
    /// channel or column as MEAN,MEAN,...:STD,STD,...
    #[arg(long, value_name = "MEAN,STD", allow_hyphen_values = true)]
    normalize: Option<Normalize>,
    /// Keeps bytes as 0 to 255 instead of dividing them by 255
    #[arg(long)]
    raw_bytes: bool,
    /// Where arrays have their channels: `nchw`, on the axis after the samples; `nhwc`, on the last, and they are moved
    #[arg(long, value_name = "nchw|nhwc", default_value = "nchw")]
    layout: Layout,
    /// images, parquet: scales images of other sizes than the model's: `crop` cuts the middle to its aspect ratio first, `stretch` takes
    /// all of an image [default: other sizes are an error]
    #[arg(long, value_name = "crop|stretch")]
    resize: Option<Resize>,
    /// What to do with a row that has a NaN, an infinity or a label out of range: `drop` makes it contribute nothing. An error if more
    /// than 1 % of the rows are such
    #[arg(long, value_name = "error|drop", default_value = "error")]
    on_bad_row: OnBadRow,
    /// Uses the first N training samples only
    #[arg(long, value_name = "N")]
    train_size: Option<usize>,
    /// csv, parquet, text: the label's column, by name or counted from 0 [default: csv the last; text label, class or target; parquet
    /// one of these, or the last]. cifar: `fine` or `coarse`, of CIFAR-100 [default: fine]
    #[arg(long, value_name = "COLUMN")]
    label_column: Option<String>,
    /// csv, text: whether the first line names the columns [default: text yes; csv if none of its fields is a number or a word for a missing
    /// value; a line of both is an error]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    header: Option<bool>,
    /// csv, text: what separates fields, one character or `tab` [default: a comma; in .tsv files a tab]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// The names of the classes in the model's order, with commas between them, or a file with one a line: csv, parquet and text have them
    /// as labels, images as folders, other kinds their numbers. They are public [default: those that the model holds, else labels are
    /// numbers; images: the training folders in the order of their names]
    #[arg(long, value_name = "NAME,NAME,...|FILE", value_parser = classes)]
    classes: Option<Names>,
    /// csv, parquet: a column of categories, and all its values, public: a number for each, 0 or 1; for inputs of integers, its place.
    /// Can be given for several columns
    #[arg(long, value_name = "COLUMN=VALUE,VALUE,...", value_parser = categories)]
    categories: Vec<(String, Vec<String>)>,
    /// csv, parquet: a column and public constants: its numbers become (x - MEAN) / STD. Can be given for several columns. With --loss mse
    /// also the label's column, which npz and npy call `labels`: losses and predictions stay in the label's unit
    #[arg(long, value_name = "COLUMN=MEAN,STD", value_parser = scale)]
    scale: Vec<(String, f64, f64)>,
    /// npz: names of the arrays of features and labels [default: x, or the model input's name; y, or labels]
    #[arg(long, value_name = "X,Y", value_parser = pair::<String>)]
    arrays: Option<(String, String)>,
    /// npy: the file of the labels, an array like the samples'
    #[arg(long, value_name = "FILE.npy")]
    labels: Option<PathBuf>,
    /// npy: the file of the labels of --test npy:FILE
    #[arg(long, value_name = "FILE.npy")]
    test_labels: Option<PathBuf>,
    /// text: the tokenizer's file (tokenizer.json of the Hugging Face library). It is taken to be public: one that was
    /// trained on the private texts carries their words out, outside of epsilon
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// text: the text's column, by name or counted from 0 [default: text, sentence or content]
    #[arg(long, value_name = "COLUMN")]
    text_column: Option<String>,
    /// text: tokens of a text that are kept at most [default: as many as the model takes]
    #[arg(long, value_name = "TOKENS")]
    max_length: Option<usize>,
    /// text: what the labels are, `classify` the label column's numbers, `language-model` each token's successor
    #[arg(long, value_name = "classify|language-model", default_value = "classify")]
    task: TextTask,
    /// Samples of each input that are held in memory; more are kept in a file without a name and read for each step
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = memory)]
    data_memory: u64,
    /// The folder of that file, which is as secret as the data and goes when the command ends [default: the system's for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// images, parquet: a folder in which decoded images stay, so that later runs need not decode them again. As secret as the data;
    /// damper never removes it
    #[arg(long, value_name = "DIR")]
    image_cache: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct TestMetricsArgs {
    /// What is released of the held-out samples: `exact`: accuracy and loss, exact functions of samples that epsilon does not
    /// protect; `private`: both with noise, charged so that epsilon protects these samples too; `none`: nothing
    #[arg(long, value_name = "exact|private|none", default_value = "exact")]
    pub test_metrics: TestMetricsArg,
    /// With --test-metrics private: a sample's loss counts as L at most, above and below zero [default: 10]
    #[arg(long, value_name = "L", value_parser = number32)]
    pub test_loss_bound: Option<f32>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct NormalizeArgs {
    /// Public bounds of the features: their means and standard deviations over the training samples are released with noise before the first
    /// step, priced with the run, and every feature becomes (x - MEAN) / STD. One pair for all columns, or one each as
    /// LOW,LOW,...:HIGH,HIGH,... A value outside counts as the nearest bound
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, value_parser = bounds, conflicts_with = "normalize")]
    normalize_private: Option<Normalize>,
    /// Noise of that release, over the largest norm that one sample adds [default: four times that of one release at the run's epsilon]
    #[arg(long, value_name = "S", requires = "normalize_private")]
    normalize_noise_multiplier: Option<f64>,
}

impl NormalizeArgs {
    pub(super) fn choice(&self) -> Option<NormalizePrivate> {
        let Normalize { means: lows, stds: highs } = self.normalize_private.clone()?;
        Some(NormalizePrivate { lows, highs, noise_multiplier: self.normalize_noise_multiplier })
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct NonFiniteArgs {
    /// Releases how many training samples have no finite gradient and so add nothing: once, with noise, before the first step, priced with
    /// the run. The report has the number
    #[arg(long)]
    release_non_finite: bool,
    /// Noise of that number, in samples [default: sixteen times that of one release at the run's epsilon]
    #[arg(long, value_name = "S", requires = "release_non_finite")]
    non_finite_noise_multiplier: Option<f64>,
}

impl NonFiniteArgs {
    pub(super) fn choice(&self) -> Option<ReleaseNonFinite> {
        self.release_non_finite.then_some(ReleaseNonFinite { noise_multiplier: self.non_finite_noise_multiplier })
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestMetricsArg {
    Exact,
    Private,
    None,
}

/// What is taken to be public.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Stratify {
    PublicClasses,
}

/// Names of classes; a type, so that one flag holds them all.
#[derive(Clone, Debug)]
pub(super) struct Names(pub Vec<String>);

/// Help that lists the formats of the library.
fn samples() -> String {
    let written = || FORMATS.iter().filter_map(|format| Some((format.names[0], format.path?, format.gzip)));
    let list = written().map(|(name, path, _)| format!("{name}:{path}")).collect::<Vec<_>>().join(", ");
    let gzipped = written().filter_map(|(name, _, gzip)| gzip.then_some(name)).collect::<Vec<_>>().join(", ");
    // The libraries have settings in backticks.
    let list = list.replace(" `", " --").replace('`', "");
    format!("The samples: {list}. Also gzipped: {gzipped}")
}

fn bounds(text: &str) -> Result<Normalize, String> {
    text.parse().map_err(|error: DataError| match error.to_string() {
        form if form.contains("MEAN") => "give LOW,HIGH, or LOW,LOW,...:HIGH,HIGH,...".into(),
        number => number,
    })
}

/// A switch, also as run files have it.
fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("give yes or no"),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err("give one character, such as ';', or tab".into()),
    }
}

pub(super) fn classes(text: &str) -> Result<Names, String> {
    let names = if text.contains(',') {
        list(text)
    } else {
        let lines = fs::read_to_string(Path::new(text)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "give names with commas between them, or a file with one a line; there is no such file".to_owned()
            }
            io::ErrorKind::InvalidData => "the file is not UTF-8 text; save it as UTF-8".to_owned(),
            _ => format!("the file cannot be read ({error})"),
        })?;
        // Some editors put a byte order mark in front.
        lines
            .trim_start_matches('\u{feff}')
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(String::from)
            .collect()
    };
    if names.len() < 2 || names.iter().any(String::is_empty) {
        return Err("give two names or more, none of them empty".into());
    }
    Ok(Names(names))
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

fn categories(text: &str) -> Result<(String, Vec<String>), String> {
    let (column, values) = text.rsplit_once('=').ok_or("give COLUMN=VALUE,VALUE,...")?;
    let values = list(values);
    let repeated = values.iter().enumerate().any(|(at, value)| values[..at].contains(value));
    if values.len() < 2 || repeated {
        return Err("give two different values or more, each once".into());
    }
    Ok((column.trim().to_owned(), values))
}

fn scale(text: &str) -> Result<(String, f64, f64), String> {
    let wrong = || "give COLUMN=MEAN,STD".to_owned();
    let (column, constants) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (mean, std) = constants.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(_) => constant(text).map_err(|error| error.to_string()),
        Err(_) => Err(wrong()),
    };
    Ok((column.trim().to_owned(), number(mean)?, number(std)?))
}

impl DataArgs {
    /// How the library reads the data.
    pub fn options(&self) -> DataOptions {
        DataOptions {
            on_bad_row: self.on_bad_row,
            normalize: self.normalize.clone(),
            layout: self.layout,
            resize: self.resize,
            raw_bytes: self.raw_bytes,
            test: self.test.clone(),
            split_seed: self.split_seed,
            stratify: self.stratify.is_some(),
            train_size: self.train_size,
            label_column: self.label_column.clone(),
            header: self.header,
            delimiter: self.delimiter,
            classes: self.classes.as_ref().map(|Names(names)| names.clone()),
            categories: self.categories.clone(),
            scale: self.scale.clone(),
            arrays: self.arrays.clone(),
            labels_file: self.labels.clone(),
            test_labels_file: self.test_labels.clone(),
            text: TextOptions {
                tokenizer: self.tokenizer.clone(),
                text_column: self.text_column.clone(),
                max_length: self.max_length,
                task: self.task,
            },
            data_memory: Some(self.data_memory),
            cache: self.cache.clone(),
            image_cache: self.image_cache.clone(),
            memory: caller::memory(),
            ..DataOptions::default()
        }
    }
}
