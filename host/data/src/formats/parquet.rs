//! `parquet:PATH`: a Parquet file, or a folder of them.
//!
//! In a folder, files with names that begin with `train` (or in a folder `train`) are the training split. Those with
//! `test`, `validation`, `valid` or `dev` are the test split. Without such names, all files are training rows. Hugging
//! Face uses this layout, also below `data/`. Files of a split are read in the order of their names.
//!
//! A column of images is `image` or `img`: bytes of PNG or JPEG files, or Hugging Face's struct of `bytes` and `path`.
//! If there is such a column, it has the samples, and only the label column is read in addition. Otherwise all columns
//! except the label are features: numbers, and categories from public lists. The fields of a struct are columns, named
//! `struct.field`. A column has the type that the file declares, so digits in a text column are not a number. Supported
//! compression: none, Snappy, gzip and LZ4, and Zstandard with the feature `zstd`.

mod arrow_schema;
mod cells;
mod choose_columns;
mod metadata;
mod samples;

use crate::dataset::Splits;
use crate::files::{FETCH_AGAIN, guarded, open_plain, read_failed};
use crate::numbers::Sink;
use crate::rows::{Array, Naming, RawSplit, assemble};
use crate::{DataError, DataOptions, Split};
use cells::cells;
use choose_columns::{Content, choose};
use parquet::basic::ConvertedType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use samples::Samples;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Names of the test split. The first existing name is used.
const TEST: [&str; 4] = ["test", "validation", "valid", "dev"];
/// Number of rows read at once.
const BLOCK: usize = 256;

pub(super) fn load(path: &Path, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
    let (train, test) = if path.is_dir() { of_folder(path)? } else { (vec![path.to_path_buf()], vec![]) };
    // The library panics on some malformed files.
    let mut read = |files: &[PathBuf]| {
        guarded(|| split(path, files, options, naming)).unwrap_or_else(|| Err(corrupt(path, &"a page is malformed")))
    };
    let train = read(&train)?;
    let test = if test.is_empty() { None } else { Some(read(&test)?) };
    Ok((train, test))
}

/// Returns the extents of a sample of a table.
pub(super) fn extents(path: &Path, options: &DataOptions) -> Result<Vec<usize>, DataError> {
    let files = if path.is_dir() { of_folder(path)?.0 } else { vec![path.to_path_buf()] };
    let file = &files[0];
    let mut naming = Naming::new(options.names.as_ref(), options.classes.as_deref())?;
    let chosen = guarded(|| {
        choose(file, &open(file)?, options, &mut naming, true).map(|chosen| match chosen.content {
            Content::Table(columns) => Some(columns.width()),
            Content::Images { .. } => None,
        })
    });
    match chosen.unwrap_or_else(|| Err(corrupt(path, &"a page is malformed")))? {
        Some(width) => Ok(vec![width]),
        None => Err(DataError::File(format!(
            "{}: holds images without a declared size: give an exported model",
            path.display()
        ))),
    }
}

fn corrupt(path: &Path, error: &dyn std::fmt::Display) -> DataError {
    let error = error.to_string();
    let error = error.strip_prefix("Parquet error: ").unwrap_or(&error);
    let remedy = if error.contains("codec") || error.contains("Disabled feature") {
        "write it with Snappy, gzip, LZ4 or Zstandard (for which damper must be built with its feature zstd)"
    } else {
        FETCH_AGAIN
    };
    DataError::File(format!("{}: is not a Parquet file that can be read ({error}): {remedy}", path.display()))
}

/// Returns the files of both splits.
fn of_folder(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DataError> {
    let data = path.join("data");
    let path = if data.is_dir() { &data } else { path };
    let list = |path: &Path| -> Result<Vec<PathBuf>, DataError> {
        let failed = |error| read_failed(path, &error);
        let entries = fs::read_dir(path).map_err(failed)?.map(|entry| entry.map(|entry| entry.path()));
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        entries.sort();
        Ok(entries)
    };
    let is_parquet = |file: &PathBuf| file.extension().is_some_and(|end| end == "parquet") && file.is_file();
    let entries = list(path)?;
    let of_split = |split: &str| -> Result<Vec<PathBuf>, DataError> {
        let folder = path.join(split);
        if folder.is_dir() {
            return Ok(list(&folder)?.into_iter().filter(is_parquet).collect());
        }
        let is_named = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(split).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        Ok(entries.iter().filter(|file| is_parquet(file) && is_named(file)).cloned().collect())
    };
    let train = of_split("train")?;
    let test = TEST.iter().map(|name| of_split(name)).find(|files| !matches!(files, Ok(files) if files.is_empty()));
    let all: Vec<PathBuf> = entries.iter().filter(|file| is_parquet(file)).cloned().collect();
    match (train.is_empty(), all.is_empty()) {
        (false, _) => Ok((train, test.transpose()?.unwrap_or_default())),
        (true, false) if test.is_none() => Ok((all, vec![])),
        _ => Err(DataError::File(format!(
            "{}: holds no .parquet files of a training split: name the folder that does, or a file",
            path.display()
        ))),
    }
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, DataError> {
    let (file, _) = open_plain(path)?;
    SerializedFileReader::new(file).map_err(|error| corrupt(path, &error))
}

fn split(path: &Path, files: &[PathBuf], options: &DataOptions, naming: &mut Naming) -> Result<Split, DataError> {
    let mut samples = Samples::new(options);
    let mut labels = Sink::new(&options.room());
    let (mut unreadable, mut rows, mut has_label) = (Vec::new(), 0, false);
    let mut label_scale = None;
    for (at, file) in files.iter().enumerate() {
        let reader = open(file)?;
        let failed = |error: ParquetError| corrupt(file, &error);
        let chosen = choose(file, &reader, options, naming, at == 0)?;
        has_label = chosen.has_label;
        label_scale = chosen.content.columns().label_scale();
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let is_unsigned: Vec<bool> = chosen
            .leaves
            .iter()
            .map(|leaf| {
                matches!(
                    schema.column(*leaf).converted_type(),
                    ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
                )
            })
            .collect();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(failed)?;
            let readers = chosen.leaves.iter().map(|leaf| group.get_column_reader(*leaf));
            let mut readers = readers.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            loop {
                let block =
                    readers.iter_mut().zip(&is_unsigned).map(|(reader, unsigned)| cells(reader, BLOCK, *unsigned));
                let block = block.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                let count = block.first().map_or(0, Vec::len);
                if block.iter().any(|column| column.len() != count) {
                    return Err(corrupt(file, &"its columns have different lengths"));
                }
                if count == 0 {
                    break;
                }
                let faults = samples.add(file, &chosen.content, &block, &mut labels)?;
                unreadable.extend(faults.into_iter().map(|(row, fault)| (rows + row, fault)));
                rows += count;
            }
        }
    }
    let origin = path.display().to_string();
    let is_scaled = samples.are_scaled();
    let (shape, values) = samples.finish()?;
    let of_labels = || labels.values().map(|values| Array { origin: origin.clone(), shape: vec![rows], values });
    let labels = has_label.then(of_labels).transpose()?;
    let shape = [&[rows], &shape[..]].concat();
    let features = vec![Array { origin, shape, values }];
    assemble(RawSplit { unreadable, is_scaled, label_scale, ..RawSplit::new(features, labels) }, options)
}
