//! Data sets: read, checked by their owner before any release, and held as plain arrays, or beyond
//! [`DataOptions::data_memory`] in a file that is read for each draw.
//!
//! [`load`] is the way in: `KIND:PATH` and [`DataOptions`] to a [`Dataset`]. Kinds, one a file: `idx` (MNIST's
//! files, plain or gzipped), `csv`, `npz`, `text`. [`chunks`] and [`Batch`] then turn the samples drawn for a step into batches
//! of the one physical size of a run.
//!
//! What is private and what is public here:
//!
//! - Preprocessing uses public constants alone: bytes are scaled by 1/255, and [`DataOptions::normalize`] takes a mean
//!   and a standard deviation that the user knows in advance. Nothing is computed from the samples here;
//!   [`Batch::scaled_by`] takes what was released of them.
//! - The number of rows N is public. Under [`OnBadRow::Drop`] a bad row keeps its place and becomes a null sample,
//!   which contributes nothing: N, the draw, the split and every other sample are what they were. How many rows were
//!   bad is private, and nothing here reports it.
//! - The held-out rows follow from a public seed and the rows' positions alone ([`TestSource::Fraction`]); with
//!   [`DataOptions::stratify`] also from their classes, which are then public.

#[cfg(not(all(feature = "parquet", feature = "text")))]
mod absent;
mod array;
mod assemble;
mod augment;
mod batch;
mod cifar;
mod columns;
mod constant;
mod csv;
mod dataset;
mod declared;
mod decoded;
mod edit;
mod error;
mod fit;
mod from_memory;
mod guard;
mod held_out;
mod idx;
mod images;
mod kind;
mod line_numbers;
mod lines;
mod memory;
mod names;
mod npy;
mod npz;
mod number;
mod options;
mod overlap;
#[cfg(feature = "parquet")]
mod parquet;
mod pickle;
mod pictures;
mod quotes;
mod scaling;
mod stored;
mod table;
#[cfg(feature = "text")]
mod text;
mod values;

pub use augment::{Augment, Motion, View};
pub use batch::{Batch, BatchLabels, Chunk, chunks};
pub use constant::constant;
pub use dataset::{Dataset, Features, Labels, Numbers, Split};
pub use edit::Sample;
pub use error::DataError;
pub use guard::catches_panics;
pub use held_out::held_out_rows;
pub use memory::{Memory, MemoryArray, MemorySplit, MemoryValues};
pub use names::{DataNames, KnownNames, TableNames};
pub use options::{
    DataOptions, InputShape, LabelKind, Layout, Normalize, OnBadRow, Resize, TestSource, TextOptions, TextTask,
};
pub use stored::Stored;

use columns::check_classes;
use damper_onnx::SettingError;
use kind::{KINDS, Kind};
use names::Naming;
use std::path::Path;

/// Loads the data set `KIND:PATH`.
///
/// # Errors
///
/// An unknown kind; a file that is missing, empty, truncated, corrupt, of the wrong format or shape; counts that do not
/// match; samples that do not fit the model's inputs; a bad row under [`OnBadRow::Error`]; a test split that is asked
/// for twice or cannot be made.
pub fn load(spec: &str, options: &DataOptions) -> Result<Dataset, DataError> {
    if let Some(normalize @ Normalize { means, stds }) = &options.normalize
        && !(means.iter().all(|mean| mean.is_finite()) && stds.iter().all(|std| std.is_normal() && *std > 0.0))
    {
        let problem = "give finite means and standard deviations above 0";
        return Err(SettingError::new("normalize", normalize, problem).into());
    }
    check_classes(options)?;
    check_kinds(spec, options)?;
    declared::check(options)?;
    if options.stratify && !matches!(options.test, Some(TestSource::Fraction(_))) {
        let problem = "divides the rows that `test` FRACTION holds out by class; give a fraction, or leave it out";
        return Err(SettingError::new("stratify", "", problem).into());
    }
    if options.stratify && !matches!(options.labels, LabelKind::Classes { .. }) {
        let problem = "divides by class, and these labels are not classes; leave it out";
        return Err(SettingError::new("stratify", "", problem).into());
    }
    let known = options.names.as_ref();
    let mut naming = Naming::new(known, options.classes.as_deref())?;
    declared::not_normalized(options).into_iter().for_each(|note| naming.note(note));
    let (train, own_test) = read(spec, options, &mut naming)?;
    let own_test_is_absent = own_test.is_none();
    let (train, test) = match &options.test {
        None => (train, own_test),
        Some(TestSource::Fraction(_)) if own_test.is_some() => {
            return Err(DataError::File(format!(
                "{spec}: has a test split of its own: leave out `test`, or give `test` KIND:PATH"
            )));
        }
        Some(TestSource::Fraction(fraction)) => {
            if options.stratify && !train.has_one_class_each() {
                let problem = "needs one class a sample, and these samples have several; leave it out";
                return Err(SettingError::new("stratify", "", problem).into());
            }
            let parts = if options.stratify {
                train.hold_out_of_classes(*fraction, options.split_seed)
            } else {
                train.hold_out(*fraction, options.split_seed)
            };
            let (train, test) = parts.ok_or_else(|| {
                DataError::File(format!(
                    "{spec}: `test` {fraction} of {} rows leaves a split empty: give another fraction",
                    train.len()
                ))
            })?;
            (train, Some(test))
        }
        Some(TestSource::Spec(other)) => {
            let of_test = DataOptions { labels_file: options.test_labels_file.clone(), ..options.clone() };
            let (all, test) = read(other, &of_test, &mut naming)?;
            (train, Some(test.unwrap_or(all)))
        }
    };
    if let Some(test) = &test {
        train.check_same_shapes(test, spec)?;
        let is_file = matches!(&options.test, Some(TestSource::Spec(other)) if is_same_file(spec, other));
        let from_elsewhere = !matches!(options.test, Some(TestSource::Fraction(_)));
        if from_elsewhere && (is_file && own_test_is_absent || train.has_rows_of(test)?) {
            return Err(DataError::File(format!(
                "{spec}: the held-out rows are the training rows; give `test` other data, or `test` FRACTION to hold some out"
            )));
        }
    }
    let train = match options.train_size {
        None => train,
        Some(size) if size > 0 && size <= train.len() => train.first(size),
        Some(size) => {
            return Err(DataError::File(format!(
                "{spec}: `train_size` {size}: the training split has {} samples: give 1 to {}",
                train.len(),
                train.len()
            )));
        }
    };
    let (names, notes) = naming.finish();
    // Read by its kind just now.
    let kind = Kind::of(spec.split(':').next().unwrap_or_default()).ok_or_else(|| unknown(spec))?;
    Ok(Dataset { train, test, sample: kind.sample(options), names, notes })
}

/// Settings that some kinds take, and these are others.
fn check_kinds(spec: &str, options: &DataOptions) -> Result<(), DataError> {
    let test = match &options.test {
        Some(TestSource::Spec(other)) => other,
        _ => spec,
    };
    let taken: [(&'static str, bool, &[&str]); 10] = [
        ("delimiter", options.delimiter.is_some(), &["csv", "text"]),
        (
            "classes",
            options.classes.is_some(),
            &["idx", "csv", "npz", "npy", "images", "folder", "cifar", "parquet", "text", "memory"],
        ),
        ("categories", !options.categories.is_empty(), &["csv", "parquet"]),
        ("scale", !options.scale.is_empty(), &["csv", "parquet", "npz", "npy", "memory", "idx"]),
        ("labels", options.labels_file.is_some(), &["npy"]),
        ("test_labels", options.test_labels_file.is_some(), &["npy"]),
        ("layout", options.layout != Layout::Nchw, &["idx", "csv", "npz", "npy", "parquet", "memory"]),
        ("resize", options.resize.is_some(), &["images", "folder", "parquet"]),
        ("image_cache", options.image_cache.is_some(), &["images", "folder", "parquet"]),
        ("raw_bytes", options.raw_bytes, &["idx", "npz", "npy", "images", "folder", "cifar", "parquet", "csv"]),
    ];
    for (setting, is_given, kinds) in taken {
        let takes = |spec: &str| spec.split_once(':').is_none_or(|(kind, _)| kinds.contains(&kind));
        if is_given && !takes(spec) && !takes(test) {
            // Nobody writes `memory:` by hand.
            let kinds: Vec<_> = kinds.iter().filter(|kind| **kind != "memory").copied().collect();
            let problem = format!("is for {}; leave it out", kinds.join(", "));
            return Err(SettingError::new(setting, "", problem).into());
        }
    }
    Ok(())
}

/// Returns true if both name one file or folder.
fn is_same_file(spec: &str, other: &str) -> bool {
    let path = |spec: &str| spec.split_once(':').and_then(|(_, path)| Path::new(path).canonicalize().ok());
    path(spec).is_some_and(|file| path(other) == Some(file))
}

/// The kind that a path looks like.
fn likely_kind(path: &str) -> Option<&'static str> {
    let name = path.strip_suffix(".gz").unwrap_or(path);
    let ends: [(&str, &str); 8] = [
        (".csv", "csv"),
        (".npz", "npz"),
        (".npy", "npy"),
        (".parquet", "parquet"),
        (".tsv", "text"),
        (".txt", "text"),
        (".tar", "cifar"),
        ("-ubyte", "idx"),
    ];
    ends.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
}

fn unknown(spec: &str) -> DataError {
    let kind = spec.split(':').next().unwrap_or_default();
    DataError::File(format!("{spec}: unknown kind '{kind}': use one of {KINDS}"))
}

fn read(spec: &str, options: &DataOptions, naming: &mut Naming) -> Result<(Split, Option<Split>), DataError> {
    let (kind, path) = spec.split_once(':').filter(|(_, path)| !path.is_empty()).ok_or_else(|| {
        let likely = likely_kind(spec).map_or(String::new(), |kind| format!(", such as {kind}:{spec}"));
        DataError::File(format!("{spec}: give KIND:PATH{likely}; KIND is one of {KINDS}"))
    })?;
    let path = Path::new(path);
    match Kind::of(kind).ok_or_else(|| unknown(spec))? {
        Kind::Idx => idx::load(path, options),
        Kind::Csv => csv::load(path, options, naming),
        Kind::Cifar => cifar::load(path, options),
        Kind::Images => images::load(path, options, naming),
        #[cfg(feature = "parquet")]
        Kind::Parquet => parquet::load(path, options, naming),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => absent::refuse(kind),
        Kind::Memory if options.memory.is_some() => from_memory::load(&path.to_string_lossy(), options, naming),
        Kind::Memory => Err(unknown(spec)),
        Kind::Npy => npy::load(path, options),
        Kind::Npz => npz::load(path, options),
        #[cfg(feature = "text")]
        Kind::Text => text::load(path, options, naming),
        #[cfg(not(feature = "text"))]
        Kind::Text => absent::refuse(kind),
    }
}

#[cfg(test)]
mod tests;
