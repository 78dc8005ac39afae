//! Data sets: read, checked by their owner before any release, and held as plain arrays.
//!
//! [`load`] is the way in: `KIND:PATH` and [`DataOptions`] to a [`Dataset`]. Kinds, one a file: `idx` (MNIST's
//! files, plain or gzipped), `csv`, `npz`, `text`. [`chunks`] and [`Batch`] then turn the samples drawn for a step into batches
//! of the one physical size of a run.
//!
//! What is private and what is public here:
//!
//! - Preprocessing uses public constants alone: bytes are scaled by 1/255, and [`DataOptions::normalize`] takes a mean
//!   and a standard deviation that the user knows in advance. Nothing is computed from the samples.
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
mod error;
mod idx;
mod npz;
mod options;
mod overlap;
mod text;

pub use batch::{Batch, BatchLabels, Chunk, chunks};
pub use dataset::held_out_rows;
pub use dataset::{Dataset, Features, Labels, Numbers, Split};
pub use edit::Sample;
pub use error::DataError;
pub use options::{DataOptions, InputShape, LabelKind, OnBadRow, TestSource, TextOptions, TextTask};

use damper_onnx::SettingError;
use std::path::Path;

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
        let problem = "give a finite mean and a standard deviation above 0";
        return Err(SettingError::new("normalize", format!("{mean},{std}"), problem).into());
    }
    let (train, own_test) = read(spec, options)?;
    let own_test_is_absent = own_test.is_none();
    let (train, test) = match &options.test {
        None => (train, own_test),
        Some(TestSource::Fraction(_)) if own_test.is_some() => {
            return Err(DataError::File(format!(
                "{spec}: has a test split of its own: leave out `test`, or give `test` KIND:PATH"
            )));
        }
        Some(TestSource::Fraction(fraction)) => {
            let (train, test) = train.hold_out(*fraction).ok_or_else(|| {
                DataError::File(format!(
                    "{spec}: `test` {fraction} of {} rows leaves a split empty: give another fraction",
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
        .ok_or_else(|| DataError::File(format!("{spec}: give KIND:PATH, KIND one of {KINDS}")))?;
    let path = Path::new(path);
    match kind {
        "idx" => idx::load(path, options),
        "csv" => csv::load(path, options),
        "npz" => npz::load(path, options),
        "text" => text::load(path, options),
        _ => Err(DataError::File(format!("{spec}: unknown kind '{kind}': use one of {KINDS}"))),
    }
}

#[cfg(test)]
mod tests;
