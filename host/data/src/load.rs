//! Loads a data set from `KIND:PATH` and options. A format reads the files, and test rows are held out.

use crate::dataset::Splits;
use crate::formats;
use crate::options::check;
use crate::rows::Naming;
use crate::{DataError, DataOptions, Dataset, InputShape, Split, TestSource};
use damper_onnx::{DType, SettingError};
use std::path::Path;

/// Returns the extents of a sample for each of `inputs` in the data set `KIND:PATH`. Arrays have them (`npz`, `npy`,
/// `memory`), and texts with a declared length. Returns `None` for other kinds, and if the data cannot be read.
pub fn sample_shapes(spec: &str, options: &DataOptions, inputs: &[String]) -> Option<Vec<Vec<usize>>> {
    let input = |name: &String| InputShape { name: name.clone(), shape: vec![], dtype: DType::F32, rows: None };
    let options = DataOptions { inputs: inputs.iter().map(input).collect(), ..options.clone() };
    formats::shapes(spec, &options)
}

/// Loads the data set `KIND:PATH`.
///
/// # Errors
///
/// - The kind is unknown, or does not read a setting.
/// - A file is missing, empty, truncated, corrupt, or of the wrong format or shape.
/// - Counts do not match, or samples do not fit the model's inputs.
/// - A row is bad, under [`OnBadRow::Error`](crate::OnBadRow::Error).
/// - The test split is given twice, or cannot be created.
pub fn load(spec: &str, options: &DataOptions) -> Result<Dataset, DataError> {
    check::normalize(options)?;
    check::classes(options)?;
    formats::check_settings(spec, options)?;
    check::model(options)?;
    check::stratify(options)?;
    let mut naming = Naming::new(options.names.as_ref(), options.classes.as_deref())?;
    check::not_normalized(options).into_iter().for_each(|note| naming.note(note));
    let (format, path) = formats::find(spec, options)?;
    let (train, own_test) = format.read(path, options, &mut naming)?;
    let has_own_test = own_test.is_some();
    let (train, test) = with_test(spec, options, (train, own_test), &mut naming)?;
    if let Some(test) = &test {
        check_test(spec, options, &train, test, has_own_test)?;
    }
    let train = match options.train_size {
        None => train,
        Some(size) if size > 0 && size <= train.len() => train.first(size),
        Some(size) => {
            let problem = format!("the training split has {} samples: give 1 to {}", train.len(), train.len());
            return Err(DataError::setting_of(spec, SettingError::new("train_size", size, problem)));
        }
    };
    let (names, notes) = naming.finish();
    Ok(Dataset { train, test, sample: format.unit_of_privacy(options), names, notes })
}

/// Returns the training rows, and the test rows that the options request.
fn with_test(
    spec: &str,
    options: &DataOptions,
    (train, own_test): Splits,
    naming: &mut Naming,
) -> Result<Splits, DataError> {
    match &options.test {
        None => Ok((train, own_test)),
        Some(TestSource::Fraction(_)) if own_test.is_some() => Err(DataError::File(format!(
            "{spec}: has a test split of its own: leave out `test`, or give `test` KIND:PATH"
        ))),
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
                let value = format!("{fraction} of {} rows leaves a split empty", train.len());
                DataError::setting_of(spec, SettingError::new("test", value, "give another fraction"))
            })?;
            Ok((train, Some(test)))
        }
        Some(TestSource::Spec(other)) => {
            let of_test = DataOptions { labels_file: options.test_labels_file.clone(), ..options.clone() };
            let (format, path) = formats::find(other, &of_test)?;
            let (all, test) = format.read(path, &of_test, naming)?;
            Ok((train, Some(test.unwrap_or(all))))
        }
    }
}

/// Returns an error if test rows differ in shape from training rows, or are the training rows.
fn check_test(
    spec: &str,
    options: &DataOptions,
    train: &Split,
    test: &Split,
    has_own_test: bool,
) -> Result<(), DataError> {
    train.check_same_shapes(test, spec)?;
    let is_file = matches!(&options.test, Some(TestSource::Spec(other)) if is_same_file(spec, other));
    let from_elsewhere = !matches!(options.test, Some(TestSource::Fraction(_)));
    if from_elsewhere && (is_file && !has_own_test || train.has_rows_of(test)?) {
        return Err(DataError::File(format!(
            "{spec}: the held-out rows are the training rows; give `test` other data, or `test` FRACTION to hold some out"
        )));
    }
    Ok(())
}

/// Returns true if both refer to the same file or folder.
fn is_same_file(spec: &str, other: &str) -> bool {
    let path = |spec: &str| spec.split_once(':').and_then(|(_, path)| Path::new(path).canonicalize().ok());
    path(spec).is_some_and(|file| path(other) == Some(file))
}
