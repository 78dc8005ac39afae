//! Metadata that programs write into a Parquet file. From pandas, it has the index columns. From Hugging Face, it has
//! the class names.

use super::arrow_schema::durations;
use crate::rows::Naming;
use crate::{DataError, DataOptions, LabelKind};
use parquet::file::metadata::KeyValue;
use serde_json::Value;
use std::path::Path;

/// The metadata of a file.
pub(super) struct Metadata {
    /// Columns that are pandas' index (<https://pandas.pydata.org/docs/development/developer.html>).
    pub index: Vec<String>,
    /// Names of an index that is a range of numbers. The file has no column for it.
    pub ranges: Vec<String>,
    /// Columns of durations, which Parquet stores as integers.
    pub durations: Vec<String>,
    /// Hugging Face's features.
    features: Value,
}

impl Metadata {
    /// Parses these entries. Entries in other formats are ignored.
    pub fn read(path: &Path, entries: Option<&Vec<KeyValue>>) -> Result<Self, DataError> {
        let entry = |key: &str| -> Result<Option<Value>, DataError> {
            let text = entries.and_then(|all| all.iter().find(|entry| entry.key == key)?.value.as_ref());
            text.map(|text| serde_json::from_str(text)).transpose().map_err(|error| {
                DataError::File(format!(
                    "{}: its metadata '{key}' cannot be read ({error}), so its index is not known: write the file again",
                    path.display()
                ))
            })
        };
        let pandas = entry("pandas")?.unwrap_or_default();
        // A range of numbers is an object, not a column.
        let all = || pandas["index_columns"].as_array().into_iter().flatten();
        let index = all().filter_map(|column| column.as_str().map(String::from)).collect();
        let ranges = all().filter_map(|column| column["name"].as_str().map(String::from)).collect();
        let arrow = entries.and_then(|all| all.iter().find(|entry| entry.key == "ARROW:schema")?.value.as_ref());
        let mut durations = arrow.map_or(vec![], |arrow| durations(arrow));
        let columns = pandas["columns"].as_array().into_iter().flatten();
        let of_pandas =
            columns.filter(|column| column["numpy_type"].as_str().is_some_and(|kind| kind.starts_with("timedelta")));
        durations.extend(of_pandas.filter_map(|column| column["field_name"].as_str().map(String::from)));
        let mut features = entry("huggingface")?.unwrap_or_default();
        Ok(Self { index, ranges, durations, features: features["info"]["features"].take() })
    }

    /// Returns the class of each number in the column `label`, if the file names the numbers.
    pub fn numbers(
        &self,
        path: &Path,
        label: Option<&String>,
        options: &DataOptions,
        naming: &mut Naming,
    ) -> Result<Option<Vec<usize>>, DataError> {
        let LabelKind::Classes { classes, .. } = options.labels else { return Ok(None) };
        let Some(names) = label.and_then(|label| self.features[label]["names"].as_array()) else { return Ok(None) };
        let names: Vec<String> = names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
        if let Some(count) = classes.filter(|count| names.len() > *count) {
            return Err(DataError::File(format!(
                "{}: names {} classes, and the model has {count}: use other data, or train a model with more outputs",
                path.display(),
                names.len()
            )));
        }
        naming.numbers(path, &names).map(Some)
    }
}
