//! Flags of data sets.

mod values;

pub(in crate::cli) use values::Names;

use crate::cli::args::flags::number::{float32, path, whole};
use crate::cli::args::model::Size;
use crate::cli::args::text::{OneOrMany, Text, one_or_many};
use crate::cli::session::caller;
use crate::cli::{Failure, number32};
use clap::{Args, ValueEnum};
use damper_data::{
    ChannelLayout, DataOptions, ENGLISH, FORMATS, Normalize, OnBadRow, Resize, TestSource, TextOptions, TextTask,
    with_kind,
};
use damper_edit::network::Network;
use damper_train::{NormalizePrivate, ReleaseNonFinite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use values::{Categories, Classes, Delimiter, FeatureBounds, Scale, YesNo};

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Data")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct DataArgs {
    /// The samples, KIND:PATH. The command's help lists the kinds
    #[arg(long, value_name = "KIND:PATH", required = true, help = samples())]
    data: Option<String>,
    /// Held-out samples: a fraction of the rows between 0 and 1, chosen at random, or another KIND:PATH [default: the
    /// data's own]
    #[arg(long, value_name = "FRACTION|KIND:PATH")]
    test: Option<Text<TestSource>>,
    /// With --test FRACTION: the public number that selects the held-out rows. The choice depends only on this number
    /// and on positions in the file [default: 0]
    #[arg(long, value_name = "SEED")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    split_seed: Option<u64>,
    /// With --test FRACTION: holds out the same fraction of each class. Sound only if the class of every row is public:
    /// epsilon then protects the rest of a row
    #[arg(long, value_name = "public-classes")]
    stratify: Option<Stratify>,
    /// Public mean and standard deviation: every feature becomes (x - MEAN) / STD. Bytes are divided by 255 first. For
    /// values of each channel or column: MEAN,MEAN,...:STD,STD,...
    #[arg(long, value_name = "MEAN,STD", allow_hyphen_values = true)]
    normalize: Option<Text<Normalize>>,
    /// Keeps bytes as 0 to 255 instead of dividing them by 255
    #[arg(long)]
    raw_bytes: bool,
    /// Axis of the channels in arrays: `nchw` is the axis after the samples, `nhwc` is the last axis, and is moved
    /// [default: nchw]
    #[arg(long, value_name = "nchw|nhwc")]
    layout: Option<Text<ChannelLayout>>,
    /// images, parquet: scales images of other sizes than the model's. `crop` cuts the middle to its aspect ratio
    /// first, `stretch` takes all of an image [default: other sizes are an error]
    #[arg(long, value_name = "crop|stretch")]
    resize: Option<Text<Resize>>,
    /// Action for a row that has a NaN, an infinity or a label out of range: `drop` makes it contribute nothing. An
    /// error if more than 1 % of the rows are such [default: error]
    #[arg(long, value_name = "error|drop")]
    on_bad_row: Option<Text<OnBadRow>>,
    /// Uses the first N training samples only
    #[arg(long, value_name = "N")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    train_size: Option<usize>,
    /// csv, parquet, text: the label's column, by name or counted from 0. cifar: `fine` or `coarse`, of CIFAR-100.
    /// [default: csv the last. text label, class or target. parquet one of these, or the last. cifar fine]
    #[arg(long, value_name = "COLUMN")]
    label_column: Option<Text<String>>,
    /// csv, text: `yes` if the first line names the columns [default: text yes. csv: yes if none of its fields is a
    /// number or a word for a missing value. A line of both is an error]
    #[arg(long, value_name = "yes|no")]
    header: Option<Text<YesNo>>,
    /// csv, text: the separator of fields, one character or `tab` [default: a comma, in .tsv files a tab]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<Text<Delimiter>>,
    /// Names of the classes in the model's order, separated by commas, or a file with a name on each line. A number K
    /// is for labels from 0 to K - 1. In csv, parquet and text the labels are names, and in images the folders. For
    /// other kinds the labels are numbers. Names are public. [default: those in the model, else labels are numbers. For
    /// images the training folders in the order of their names]
    #[arg(long, value_name = "NAME,NAME,...|FILE|K")]
    classes: Option<Text<Classes>>,
    /// csv, parquet: a column of categories with all its values, which are public. Each value becomes a number, 0 or 1,
    /// or its position for integer inputs. Can be given for several columns
    #[arg(long, value_name = "COLUMN=VALUE,VALUE,...")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    categories: Vec<Text<Categories>>,
    /// csv, parquet: a column and public constants: its numbers become (x - MEAN) / STD. Can be given for several
    /// columns. With --loss mse also the label's column, which npz and npy call `labels`: losses and predictions stay
    /// in the label's unit
    #[arg(long, value_name = "COLUMN=MEAN,STD")]
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    scale: Vec<Text<Scale>>,
    /// npz: names of the arrays of features and labels [default: x, or the model input's name, and y, or labels]
    #[arg(long, value_name = "X,Y")]
    arrays: Option<Text<(String, String)>>,
    /// npy: the file of the labels, an array like the samples'
    #[arg(long, value_name = "FILE.npy")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    labels: Option<PathBuf>,
    /// npy: the file of the labels of --test npy:FILE
    #[arg(long, value_name = "FILE.npy")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    test_labels: Option<PathBuf>,
    /// text: the tokenizer's file (tokenizer.json of the Hugging Face library), or `english`, 4,096 built-in pieces of
    /// words. It is taken to be public: a tokenizer that was trained on the private texts releases their words outside
    /// of epsilon
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    tokenizer: Option<PathBuf>,
    /// text: the text's column, by name or counted from 0 [default: text, sentence or content]
    #[arg(long, value_name = "COLUMN")]
    text_column: Option<Text<String>>,
    /// text: tokens of a text that are kept at most [default: as many as the model takes]
    #[arg(long, value_name = "TOKENS")]
    #[serde(with = "whole")]
    #[schemars(with = "Option<whole::Whole>")]
    max_length: Option<usize>,
    /// text: the labels: `classify` takes the label column's numbers, `language-model` each token's successor [default:
    /// classify]
    #[arg(long, value_name = "classify|language-model")]
    task: Option<Text<TextTask>>,
    /// Samples of each input that are held in memory. More are stored in an unnamed file and read for each step
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    data_memory: Option<Text<Size>>,
    /// Folder of that file, which is as secret as the data and is removed when the command ends [default: the system's
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    cache: Option<PathBuf>,
    /// images, parquet: a folder that keeps decoded images, so that later runs need not decode them again. It is as
    /// secret as the data, and damper never removes it
    #[arg(long, value_name = "DIR")]
    #[serde(with = "path")]
    #[schemars(with = "Option<String>")]
    image_cache: Option<PathBuf>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Data")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct TestMetricsArgs {
    /// Release of figures on the held-out samples. `exact`: accuracy and loss, exact functions of samples that epsilon
    /// does not protect. `private`: both with noise, charged so that epsilon protects these samples too. `none`:
    /// nothing [default: exact]
    #[arg(long, value_name = "exact|private|none")]
    pub test_metrics: Option<TestMetricsArg>,
    /// With --test-metrics private: a sample's loss counts as L at most, above and below zero [default: 10]
    #[arg(long, value_name = "L", value_parser = number32)]
    #[serde(with = "float32")]
    #[schemars(with = "Option<f32>")]
    pub test_loss_bound: Option<f32>,
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Data")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct NormalizeArgs {
    /// Public bounds of the features. Their means and standard deviations over the training samples are released with
    /// noise before the first step, accounted with the run, and every feature becomes (x - MEAN) / STD. A pair for all
    /// columns, or for each column as LOW,LOW,...:HIGH,HIGH,... A value outside counts as the nearest bound
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true)]
    normalize_private: Option<Text<FeatureBounds>>,
    /// Noise of that release, over the largest norm that a sample adds [default: four times that of one release at the
    /// run's epsilon]
    #[arg(long, value_name = "S")]
    normalize_noise_multiplier: Option<f64>,
}

impl NormalizeArgs {
    pub(in crate::cli) fn choice(&self) -> Option<NormalizePrivate> {
        let FeatureBounds(Normalize { means: lows, stds: highs }) = self.normalize_private.as_deref().cloned()?;
        Some(NormalizePrivate { lows, highs, noise_multiplier: self.normalize_noise_multiplier })
    }
}

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[command(next_help_heading = "Data")]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::cli) struct NonFiniteArgs {
    /// Releases the number of training samples without a finite gradient, which add nothing: once, with noise, before
    /// the first step, accounted with the run. The report has the number
    #[arg(long)]
    release_non_finite: bool,
    /// Noise of that number, in samples [default: sixteen times that of one release at the run's epsilon]
    #[arg(long, value_name = "S")]
    non_finite_noise_multiplier: Option<f64>,
}

impl NonFiniteArgs {
    pub(in crate::cli) fn choice(&self) -> Option<ReleaseNonFinite> {
        self.release_non_finite.then_some(ReleaseNonFinite { noise_multiplier: self.non_finite_noise_multiplier })
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum TestMetricsArg {
    #[default]
    Exact,
    Private,
    None,
}

/// Public facts that stratification uses.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Stratify {
    PublicClasses,
}

/// Returns the help that lists the formats of the library.
fn samples() -> String {
    let written = || FORMATS.iter().filter_map(|format| Some((format.names[0], format.path?, format.gzip)));
    let list = written().map(|(name, path, _)| format!("{name}:{path}")).collect::<Vec<_>>().join(", ");
    let gzipped = written().filter_map(|(name, _, gzip)| gzip.then_some(name)).collect::<Vec<_>>().join(", ");
    // The libraries write settings in backticks.
    let list = list.replace(" `", " --").replace('`', "");
    format!("The samples: {list}. Also gzipped: {gzipped}")
}

/// Default of `--data-memory`, in bytes.
const DATA_MEMORY: u64 = 256 << 20;

fn copied<T: Copy>(given: Option<&Text<T>>) -> Option<T> {
    given.map(|given| **given)
}

fn cloned<T: Clone>(given: &[Text<T>]) -> Vec<T> {
    given.iter().map(|given| (**given).clone()).collect()
}

impl DataArgs {
    /// Returns `KIND:PATH` of the samples, or a path whose kind is not found yet.
    pub fn source(&self) -> &str {
        self.data.as_deref().unwrap_or_default()
    }

    /// Returns true if the samples are arrays of a program, whose shapes are known without reading.
    pub fn is_in_program(&self) -> bool {
        self.source().starts_with("memory:")
    }

    /// Returns the number of classes, if it is declared.
    pub fn class_count(&self) -> Option<usize> {
        self.classes.as_deref().map(|classes| classes.count)
    }

    /// Returns true if the samples are rows of a table.
    pub fn is_table(&self) -> bool {
        let kind = self.source().split_once(':').map(|(kind, _)| kind);
        matches!(kind, Some("csv" | "parquet"))
    }

    /// Returns true if public constants scale the samples.
    pub fn is_scaled(&self) -> bool {
        self.normalize.is_some() || !self.scale.is_empty()
    }

    /// Returns true if texts are cut by the built-in tokenizer.
    pub fn is_english(&self) -> bool {
        self.tokenizer.as_deref() == Some(Path::new(ENGLISH))
    }

    /// Returns true if the samples are given.
    pub fn is_given(&self) -> bool {
        self.data.is_some()
    }

    /// Sets the samples.
    pub fn set(&mut self, data: String) {
        self.data = Some(data);
    }

    /// Returns a setting that divides the samples of a training, if one is given.
    pub fn of_split(&self) -> Option<&'static str> {
        let given = [
            ("test", self.test.is_some()),
            ("test_labels", self.test_labels.is_some()),
            ("split_seed", self.split_seed.is_some()),
            ("stratify", self.stratify.is_some()),
            ("train_size", self.train_size.is_some()),
        ];
        given.into_iter().find_map(|(setting, is_given)| is_given.then_some(setting))
    }

    /// Returns the settings that read `samples` in the same way, without those that divide them.
    pub fn of_samples(self, samples: &str) -> Self {
        let data = Some(samples.to_owned());
        let all =
            Self { data, test: None, test_labels: None, split_seed: None, stratify: None, train_size: None, ..self };
        if !all.is_in_program() {
            return all;
        }
        // A program has read its columns itself.
        let Self { data, normalize, raw_bytes, layout, on_bad_row, classes, data_memory, cache, .. } = all;
        Self { data, normalize, raw_bytes, layout, on_bad_row, classes, data_memory, cache, ..Self::default() }
    }

    /// Adds the kinds that paths without one suggest. Returns what it added. A network for sequences takes a table as
    /// texts, by the built-in tokenizer unless a file is given.
    pub fn find_kinds(&mut self, network: Option<&Network>) -> Result<Vec<String>, Failure> {
        let is_table = |data: &str| {
            let mut as_texts = self.options();
            as_texts.text.tokenizer = Some(ENGLISH.into());
            with_kind(data, &as_texts).is_ok_and(|data| data.starts_with("text:"))
        };
        let takes_texts = match network {
            Some(Network::Bag(_)) => true,
            Some(Network::Lstm(_)) => self.data.as_deref().is_some_and(is_table),
            _ => false,
        };
        if takes_texts && self.tokenizer.is_none() {
            self.tokenizer = Some(ENGLISH.into());
        }
        let options = self.options();
        let mut added = Vec::new();
        let mut found = |given: &str| {
            let with = with_kind(given, &options)?;
            if with != given {
                added.push(format!("data: read as {with}"));
            }
            Ok::<_, Failure>(with)
        };
        if let Some(data) = &mut self.data {
            *data = found(data)?;
        }
        if let Some(TestSource::Spec(test)) = self.test.as_deref() {
            self.test = Some(found(test)?.parse().map_err(Failure::usage)?);
        }
        Ok(added)
    }

    /// Returns the seed of the held-out rows.
    pub fn split_seed(&self) -> u64 {
        self.split_seed.unwrap_or_default()
    }

    /// Returns the library's options for reading the data.
    pub fn options(&self) -> DataOptions {
        DataOptions {
            on_bad_row: copied(self.on_bad_row.as_ref()).unwrap_or_default(),
            normalize: self.normalize.as_deref().cloned(),
            layout: copied(self.layout.as_ref()).unwrap_or_default(),
            resize: copied(self.resize.as_ref()),
            raw_bytes: self.raw_bytes,
            test: self.test.as_deref().cloned(),
            split_seed: self.split_seed(),
            stratify: self.stratify.is_some(),
            train_size: self.train_size,
            label_column: self.label_column.as_deref().cloned(),
            header: copied(self.header.as_ref()).map(|YesNo(has)| has),
            delimiter: copied(self.delimiter.as_ref()).map(|Delimiter(byte)| byte),
            classes: self.classes.as_deref().and_then(|classes| classes.names.clone()),
            class_count: self.class_count(),
            categories: cloned(&self.categories),
            scale: cloned(&self.scale),
            arrays: self.arrays.as_deref().cloned(),
            labels_file: self.labels.clone(),
            test_labels_file: self.test_labels.clone(),
            text: TextOptions {
                tokenizer: self.tokenizer.clone(),
                text_column: self.text_column.as_deref().cloned(),
                max_length: self.max_length,
                task: copied(self.task.as_ref()).unwrap_or_default(),
            },
            data_memory: Some(copied(self.data_memory.as_ref()).map_or(DATA_MEMORY, |Size(bytes)| bytes)),
            cache: self.cache.clone(),
            image_cache: self.image_cache.clone(),
            memory: caller::memory(),
            ..DataOptions::default()
        }
    }
}
